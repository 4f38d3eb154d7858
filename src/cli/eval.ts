/** `agentrl eval --task T`: plays a policy on an environment's tasks and reports how often it succeeds. */
import { availableParallelism } from "node:os";
import { type Command, InvalidArgumentError, Option } from "commander";
import { type DeviceSection, knownTasks, nativeSection, webgpuSection } from "../config/sections.ts";
import { profileNames } from "../device/webgpu/profile.ts";
import { type EvalReport, successOf } from "../env/report.ts";
import { AgentRLError } from "../errors.ts";
import { isEndpoint } from "../pipeline/eval-policies.ts";
import { tokenOf } from "./controller.ts";
import { addDevice } from "./device-option.ts";
import { addJson, collect, jsonWriter, numberFrom, percent, secretFrom, settingsFrom, wholeNumber } from "./options.ts";

interface EvalOptions {
  task: string;
  data?: string;
  engine?: string;
  endpoint?: string;
  setting?: string[];
  controller?: string;
  token?: string;
  policy?: string[];
  model?: string;
  apiKeyEnv?: string[];
  level?: number[];
  episodes?: number;
  runs: number;
  split?: string;
  panel?: string;
  greedy?: boolean;
  temperature?: number;
  maxTokens?: number;
  context?: number;
  prompt?: "full" | "brief";
  seed: number;
  concurrency?: number;
  tries?: number;
  threads?: number;
  device?: DeviceSection["device"];
  profile?: DeviceSection["webgpu"]["profile"];
  out?: string;
  resume?: boolean;
  json?: string;
}

export function addEval(program: Command): void {
  const command = program
    .command("eval")
    .description("measure a policy on a task")
    .requiredOption("--task <name>", `environment: ${knownTasks.join(", ")}, or a file of your own that defines one`)
    .option("--data <file>", "tasks in AgentBench's format, instead of the generated ones")
    .option("--engine <name>", "what carries out the calls; default: embedded")
    .option("--endpoint <address>", "address of the real engine, where it needs one")
    .option("--setting <key=value>", "a setting of the environment (repeatable)", collect)
    .option("--controller <url>", "play on the workers of a controller")
    .option("--token <token>", "the controller's token; default: the variable AGENTRL_TOKEN")
    .option(
      "--policy <policy>",
      "expert, random, a model (folder, GGUF file, or org/name on the Hugging Face Hub), a run (its newest checkpoint), or an OpenAI-compatible endpoint as http://host/v1#model; several endpoints " +
        "(repeatable) take turns at random",
      collect,
    )
    .addOption(new Option("--model <model>", "the same as --policy with a model").conflicts("policy"))
    .option("--api-key-env <name>", "variable that holds the endpoints' API key (repeatable: one each)", collect)
    .option("--level <n>", "tasks of this level only (repeatable)", (text: string, before: number[] = []) => [
      ...before,
      wholeNumber(0)(text),
    ])
    .option("--episodes <n>", "at most this many tasks; all by default", wholeNumber(1))
    .option("--runs <n>", "play every task this often: spread and pass@k", wholeNumber(1), 1)
    .option("--split <name>", "task list of the environment")
    .option(
      "--panel <name>",
      "refuse to play other tasks than those of the panel that reports name so, as in kg-eval-0123abcd",
      panelName,
    )
    .addOption(new Option("--greedy", "take the likeliest token (a model's default)").conflicts("temperature"))
    .option("--temperature <t>", "sample at this temperature", numberFrom(0))
    .option("--max-tokens <n>", "tokens a policy may sample in one turn; default: 128 for a model", wholeNumber(1))
    .option("--context <n>", "tokens of a whole episode; default: the model's own limit, at most 4096", wholeNumber(1))
    .addOption(new Option("--prompt <kind>", "system prompt").choices(["full", "brief"]))
    .option("--seed <n>", "seed of every random choice", wholeNumber(0), 1)
    .option(
      "--concurrency <n>",
      "episodes at once; default: 48 for a model, 16 for endpoints, 4 for a script",
      wholeNumber(1),
    )
    .option("--tries <n>", "tries for an episode in which the environment fails; default: 3", wholeNumber(1))
    .option("--threads <n>", "compute threads of a model; all cores by default", wholeNumber(1))
    .option("--out <file>", "write every episode with its transcript as a JSON line, as it ends")
    .option("--resume", "go on with the evaluation in the --out file");
  addDevice(command).addOption(
    new Option("--profile <profile>", "checks of the WebGPU driver; default: safe").choices(profileNames),
  );
  addJson(command).action(evaluate);
}

async function evaluate(options: EvalOptions): Promise<void> {
  const policy = options.policy ?? (options.model === undefined ? [] : [options.model]);
  if (policy.length === 0) {
    throw new AgentRLError("USAGE", "No policy is given.", {
      expected: "--policy expert, --policy random, --policy MODEL or --policy http://host/v1#model",
      hint: "For example --policy models/tiny.",
    });
  }
  refuseWithoutEffect(policy, options);
  const settings = settingsFrom(options.setting);
  const apiKeys = options.apiKeyEnv?.map((name) => secretFrom(name, "agentrl eval"));
  const writeJson = jsonWriter(options.json);
  const { runEvaluation } = await import("../pipeline/evaluate.ts");
  const token = options.controller === undefined ? undefined : tokenOf(options.token);
  const temperature = options.greedy === true ? 0 : options.temperature;
  const progress = progressLine();
  try {
    const report = await runEvaluation({
      task: options.task,
      policy: policy.length === 1 ? policy[0]! : policy,
      seed: options.seed,
      runs: options.runs,
      threads: options.threads ?? availableParallelism(),
      device: {
        device: options.device ?? "auto",
        native: nativeSection.parse({}),
        webgpu: webgpuSection.parse(given({ profile: options.profile })),
      },
      ...(options.controller !== undefined && {
        controller: { url: options.controller, ...(token !== undefined && { token }) },
      }),
      ...given({
        temperature,
        settings,
        apiKeys,
        data: options.data,
        engine: options.engine,
        endpoint: options.endpoint,
        prompt: options.prompt,
        split: options.split,
        levels: options.level,
        episodes: options.episodes,
        panel: options.panel,
        maxTokensPerTurn: options.maxTokens,
        contextLimit: options.context,
        concurrency: options.concurrency,
        tries: options.tries,
        out: options.out,
        resume: options.resume,
      }),
      onEpisode: (_, done, of) => progress.show(done, of),
    });
    progress.clear();
    console.log(formatReport(report));
    writeJson(report);
    // A measurement of nothing is a failure.
    successOf(report);
  } finally {
    progress.clear();
  }
}

/** A panel's name, TASK-SPLIT-HASH, or the hash alone. */
function panelName(text: string): string {
  if (/^(?:.+-)?[0-9a-f]{8}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected a panel's name, as in kg-eval-0123abcd, or its 8 hex digits.");
}

/** The members that are not undefined. */
function given<T extends object>(options: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}

/** What is given must do something: a silently ignored option is a wrong measurement. */
function refuseWithoutEffect(policy: readonly string[], options: EvalOptions): void {
  const refuse = (names: readonly (keyof EvalOptions)[], why: string) => {
    for (const name of names) {
      if (options[name] === undefined) continue;
      const flag = `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
      throw new AgentRLError("USAGE", `${flag} has no effect ${why}.`, { hint: `Remove ${flag}.` });
    }
  };
  const [first] = policy;
  const endpoints = policy.every(isEndpoint);
  if (first === "expert" || first === "random") {
    const ofModels = [
      "greedy",
      "temperature",
      "maxTokens",
      "context",
      "threads",
      "device",
      "profile",
      "apiKeyEnv",
    ] as const;
    refuse(ofModels, `with --policy ${first}, which is a script`);
  } else if (endpoints) {
    refuse(["context", "threads", "device", "profile"], "on an endpoint, which computes elsewhere");
  } else {
    refuse(["apiKeyEnv"], "on a model, which is played in this process");
  }
  if (options.controller === undefined) refuse(["token"], "without --controller");
  else {
    const ofWorkers = ["data", "engine", "endpoint", "setting", "prompt", "split", "level", "panel"] as const;
    refuse(ofWorkers, "with --controller: its workers chose it when they started");
    if (policy.includes("expert")) {
      throw new AgentRLError("USAGE", "The expert does not play through a controller.", {
        got: "--policy expert with --controller",
        expected: "random, a model folder, or endpoints",
        hint: "Play the expert in this process: without --controller.",
      });
    }
  }
  if (options.out === undefined) refuse(["resume"], "without --out");
}

/** One line on a terminal, rewritten; nothing elsewhere. */
function progressLine(): { show: (done: number, of: number) => void; clear: () => void } {
  if (!process.stderr.isTTY) return { show: () => {}, clear: () => {} };
  return {
    show: (done, of) => process.stderr.write(`\r\x1b[K${done} of ${of} episodes`),
    clear: () => process.stderr.write("\r\x1b[K"),
  };
}

export function formatReport(report: EvalReport): string {
  const { statistics, faults, faultCauses = [] } = report;
  const ends = Object.entries(report.endReasons)
    .sort(([, a], [, b]) => b - a)
    .map(([reason, count]) => `${reason} ${count}`)
    .join(", ");
  const lines = [
    ...(report.panel === undefined ? [] : [`panel ${report.panel}`]),
    report.success === null || report.meanReward === null
      ? `${report.task}: no episode could be played`
      : `${report.task}: ${percent(report.success)} of ${report.episodes} episodes succeeded (mean reward ${report.meanReward.toFixed(3)})`,
    `ends: ${ends || "none"}`,
  ];
  if (statistics?.successInterval) {
    const [low, high] = statistics.successInterval;
    lines.push(`success, 95 % interval over tasks (Wilson): ${percent(low)} to ${percent(high)}`);
  }
  // Rewards of 0 and 1 say no more than success does.
  if (statistics?.interval && report.meanReward !== report.success) {
    const [low, high] = statistics.interval;
    lines.push(`mean reward, 95 % interval over tasks: ${low.toFixed(3)} to ${high.toFixed(3)}`);
  }
  if (statistics !== undefined && statistics.spread !== null) {
    const means = statistics.runMeans.map((value) => value.toFixed(3)).join(", ");
    lines.push(`${statistics.runs} runs: ${means} (standard deviation ${statistics.spread.toFixed(3)})`);
    const passes = Object.entries(statistics.passAtK).map(([k, share]) => `pass@${k} ${percent(share)}`);
    lines.push(passes.join("  "));
  }
  if (faults !== undefined) {
    lines.push(
      `not counted: ${faults} ${faults === 1 ? "episode" : "episodes"} that the environment failed in every try`,
      ...faultCauses.map(({ cause, episodes }) => `  ${episodes} × ${cause}`),
    );
  }
  return lines.join("\n");
}
