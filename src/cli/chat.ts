/** `agentrl chat MODEL`: talk to a model, or watch it (or play yourself) in an environment; see docs/serving.md. */
import { availableParallelism } from "node:os";
import { type Command, Option } from "commander";
import { type DeviceSection, nativeSection, webgpuSection } from "../config/sections.ts";
import type { Environment } from "../env/environment.ts";
import { AgentRLError } from "../errors.ts";
import type { EngineModel } from "../pipeline/open-engine.ts";
import type { Task } from "../serve/play.ts";
import type { Terminal } from "../serve/terminal.ts";
import { addDevice } from "./device-option.ts";
import { numberFrom, wholeNumber } from "./options.ts";

interface ChatOptions {
  task?: string;
  data?: string;
  split?: string;
  level?: number;
  index?: number;
  prompt?: "full" | "brief";
  play?: boolean;
  auto?: boolean;
  system?: string;
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  maxTokens?: number;
  seed: number;
  context?: number;
  threads?: number;
  device?: DeviceSection["device"];
}

const example = `
Examples:
  agentrl chat models/tiny --task kg --level 1     watch the model play a task
  agentrl chat --task kg --play                    play it yourself
  agentrl chat runs/kg --system "Be brief."        talk to a run's newest checkpoint`;

export function addChat(program: Command): void {
  const command = program
    .command("chat")
    .argument("[model]", "model folder, adapter folder, run (its newest checkpoint), GGUF file, or a name on the Hub")
    .description("talk to a model, or play a task of an environment turn by turn")
    .option("--system <text>", "system message")
    .option("--task <name>", "put an environment into the loop: its name, or a file of your own that defines one")
    .option("--data <file>", "tasks in AgentBench's format, instead of the generated ones")
    .option("--split <name>", "task list of the environment; default: eval, or data with --data")
    .option("--level <n>", "take the first task of this level", wholeNumber(0))
    .option("--index <i>", "take this task of the split (with --level: of that level)", wholeNumber(0))
    .addOption(
      new Option("--prompt <kind>", "the environment's system prompt; default: brief").choices(["full", "brief"]),
    )
    .option("--play", "play yourself: type calls, or text")
    .option("--auto", "let the model go on without waiting for Enter")
    .option("--temperature <t>", "sample at this temperature; default: 0 with a task, else 0.7", numberFrom(0))
    .option("--top-k <n>", "sample from the n likeliest tokens", wholeNumber(1))
    .option("--top-p <p>", "sample from the likeliest tokens that have this probability together", numberFrom(0))
    .option("--min-p <p>", "sample from tokens at least this probable beside the likeliest", numberFrom(0))
    .option(
      "--max-tokens <n>",
      "tokens of one answer; default: 128 with a task, else what the context leaves",
      wholeNumber(1),
    )
    .option("--seed <n>", "seed of every random choice", wholeNumber(0), 1)
    .option("--context <n>", "tokens of the conversation; default: the model's own limit, at most 4096", wholeNumber(1))
    .option("--threads <n>", "compute threads; all cores by default", wholeNumber(1));
  addDevice(command).addHelpText("after", example).action(chatCommand);
}

async function chatCommand(place: string | undefined, options: ChatOptions): Promise<void> {
  refuseWithoutEffect(place, options);
  const { Terminal } = await import("../serve/terminal.ts");
  const environment = options.task === undefined ? undefined : await openTask(options);
  try {
    const task = environment && { ...chosenTask(environment, options), environment, seed: options.seed };
    const model = place === undefined ? undefined : await openModel(place, options);
    try {
      const terminal = new Terminal();
      try {
        await run(terminal, model, task, options);
      } finally {
        terminal.close();
      }
    } finally {
      await model?.close();
    }
  } finally {
    await environment?.close();
  }
}

async function run(
  terminal: Terminal,
  model: EngineModel | undefined,
  task: Task | undefined,
  options: ChatOptions,
): Promise<void> {
  const { system, seed, maxTokens, topK = 0, topP = 1, minP = 0 } = options;
  const sampling = { temperature: options.temperature ?? (task === undefined ? 0.7 : 0), topK, topP, minP };
  if (model !== undefined && task === undefined) {
    const { chat } = await import("../serve/chat.ts");
    return chat(model, terminal, { system, sampling, maxTokens, seed });
  }
  const { playModel, playPerson } = await import("../serve/play.ts");
  const auto = options.auto === true;
  const reward =
    model === undefined
      ? await playPerson(task!, terminal)
      : await playModel(model, task!, terminal, { sampling, maxTokensPerTurn: maxTokens ?? 128, auto });
  if (reward === null) terminal.print("the episode was not played to its end\n");
}

async function openTask({ task, data, prompt = "brief" }: ChatOptions): Promise<Environment> {
  const { openEnvironment } = await import("../pipeline/environments.ts");
  return openEnvironment({ name: task!, options: { data, prompt } });
}

async function openModel(place: string, options: ChatOptions): Promise<EngineModel> {
  const { openServed } = await import("../serve/open.ts");
  return openServed(place, {
    maxConversations: 1,
    contextLimit: options.context,
    threads: options.threads ?? availableParallelism(),
    device: { device: options.device ?? "auto", native: nativeSection.parse({}), webgpu: webgpuSection.parse({}) },
  });
}

/** @throws AgentRLError USAGE where there is no such task. */
function chosenTask(environment: Environment, options: ChatOptions): { split: string; index: number } {
  const { level, index: at = 0, data } = options;
  const split = options.split ?? (data === undefined ? "eval" : "data");
  const { indices } = environment.split(split);
  const choice = level === undefined ? indices : indices.filter((index) => environment.level(split, index) === level);
  const index = level === undefined && options.index !== undefined ? indices.find((one) => one === at) : choice[at];
  if (index !== undefined) return { split, index };
  const levels = [...new Set(indices.map((one) => environment.level(split, one)))].sort((a, b) => a - b);
  throw new AgentRLError("USAGE", "There is no such task.", {
    where: `${environment.name}, split ${split}`,
    got: `${level === undefined ? "" : `level ${level}, `}index ${at}`,
    expected: `one of ${choice.length || indices.length} tasks${level === undefined ? "" : `; levels ${levels.join(", ")}`}`,
  });
}

/** What is given must do something. */
function refuseWithoutEffect(place: string | undefined, options: ChatOptions): void {
  const refuse = (names: (keyof ChatOptions)[], why: string) => {
    const given = names.find((name) => options[name] !== undefined);
    if (given === undefined) return;
    const flag = `--${given.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    throw new AgentRLError("USAGE", `${flag} has no effect ${why}.`, { hint: `Leave ${flag} out.` });
  };
  if (options.task === undefined) {
    refuse(["play", "auto", "data", "split", "level", "index", "prompt"], "without --task");
  } else {
    refuse(["system"], "with --task: the environment has messages of its own");
  }
  const sampled = ["auto", "temperature", "topK", "topP", "minP", "maxTokens", "context", "threads", "device"] as const;
  if (options.play) {
    refuse([...sampled], "with --play");
    if (place !== undefined) {
      throw new AgentRLError("USAGE", "A model has no part in a task that you play.", {
        got: `${place} and --play`,
        hint: "Leave the model out, or --play.",
      });
    }
  } else if (place === undefined) {
    throw new AgentRLError("USAGE", "No model is given.", {
      expected: "a model to talk to, or --task NAME --play",
      hint: "For example agentrl chat models/tiny --task kg.",
    });
  }
}
