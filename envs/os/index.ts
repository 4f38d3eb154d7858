/**
 * The OS task of AgentBench: a question about a Linux machine, or an order to carry out on it, through a bash shell. 8
 * turns; reward 1 if the answer matches or all checks pass.
 */
import { z } from "zod";
import { defineTool } from "../../src/env/define.ts";
import type { Environment, Expert, Message, Session, ToolCall } from "../../src/env/environment.ts";
import { LazyEngine } from "../../src/env/lazy-engine.ts";
import type { EnvironmentOptions } from "../../src/env/registry.ts";
import { type GeneratedTasks, TaskSource } from "../../src/env/task-source.ts";
import { type Outcome, ToolSession } from "../../src/env/tool-session.ts";
import { compare } from "./check.ts";
import { type OsSettings, openEngine, settingsOf } from "./engine.ts";
import { generateTask } from "./generate.ts";
import { loadSamples, MISSING_SCRIPT } from "./load.ts";
import { quoted } from "./quote.ts";
import type { RunOptions, RunResult, Sandbox } from "./sandbox.ts";
import frozen from "./splits.json" with { type: "json" };
import { type OsTask, promptMessages } from "./task.ts";

const MAX_TURNS = 8;
/** What a script may show the policy, in characters; AgentBench's figure. */
const SHOWN = 800;
/** Seconds for a script that prepares the machine: some wait a minute. */
const PREPARE_SECONDS = 120;
const SHELL_GONE = "The machine's shell is gone: bash, or what it needs, was removed. No script can be run any more.";
/** The oracle and the checks have a shell of their own. */
const judging = { fresh: true, outputBytes: 1 << 20 };
/** A tool's argument beyond this is refused: no script of a task comes near it. */
const MOST_SCRIPT = 64 << 10;

const tools = [
  defineTool("bash_action", "Runs a bash script.", { script: z.string().describe("The script.") }),
  defineTool("finish_action", "Says that the order has been carried out.", {
    thought: z.string().describe("Why the task is done."),
  }),
  defineTool("answer_action", "Answers the question.", { answer: z.string().describe("The bare value.") }),
];

export class OsSession extends ToolSession {
  readonly messages: Message[];
  readonly task: OsTask;
  readonly #sandbox: Sandbox;
  readonly #settings: OsSettings;

  constructor(task: OsTask, sandbox: Sandbox, settings: OsSettings, prompt: "full" | "brief") {
    super(tools, MAX_TURNS);
    this.task = task;
    this.messages = promptMessages(task, prompt);
    this.#sandbox = sandbox;
    this.#settings = settings;
  }

  /** Prepares the machine. @throws when it cannot be: the sample is then a fault of the environment. */
  async prepare(): Promise<void> {
    for (const script of this.task.init) {
      // A sample's own script may end in a failing command: only one that cannot be run at all is a fault.
      const result = await this.#run(script, { fresh: true, timeoutMs: PREPARE_SECONDS * 1000 });
      if (result.exitCode === MISSING_SCRIPT || result.timedOut || result.shellGone) {
        const why = result.shellGone ? SHELL_GONE : result.stderr || "time ran out";
        throw new Error(`the machine could not be prepared: ${why}`);
      }
    }
    if (this.task.start !== null) await this.#run(this.task.start);
  }

  protected override taskMetrics(): Record<string, number> {
    return { level: this.task.level };
  }

  protected override async call(name: string, args: Record<string, unknown>): Promise<Outcome> {
    switch (name) {
      case "bash_action":
        return this.#script(args.script as string);
      case "answer_action":
        return { content: "Answer received.", reward: await this.#judge(args.answer as string) };
      default:
        return { content: "Finished.", reward: await this.#judge("") };
    }
  }

  protected override say(): Outcome {
    return { content: "No tool call found. Call bash_action, answer_action or finish_action." };
  }

  protected override release(): Promise<void> {
    return this.#sandbox.close();
  }

  async #script(script: string): Promise<Outcome> {
    if (script.length > MOST_SCRIPT) {
      const content = `The script has ${script.length} characters; at most ${MOST_SCRIPT} are allowed.`;
      return { content, failed: true };
    }
    const result = await this.#run(script);
    if (result.shellGone) return { content: `${SHELL_GONE} You can still answer or finish.`, failed: true };
    return { content: shown(result, this.#settings.timeout) };
  }

  #run(script: string, options: Partial<RunOptions> = {}): Promise<RunResult> {
    return this.#sandbox.run(script, { timeoutMs: this.#settings.timeout * 1000, outputBytes: 4 * SHOWN, ...options });
  }

  async #judge(answer: string): Promise<number> {
    const { judge, example } = this.task;
    if ("match" in judge) return answer.trim() === judge.match.trim() ? 1 : 0;
    let expected = "";
    for (const check of judge.check) {
      if (check === null) {
        // The oracle's output is what the next check compares with.
        const result = await this.#run(example ?? "", judging);
        // Without a shell no oracle prints anything: an empty answer must not agree with that.
        if (result.shellGone) return 0;
        expected = result.stdout;
      } else if ("compare" in check) {
        if (!compare(check.compare, answer, expected)) return 0;
      } else if ("equals" in check) {
        if (answer.trim() !== check.equals) return 0;
      } else {
        const script = `set -- ${quoted(answer)} ${quoted(expected)}\n${check.bash}`;
        const result = await this.#run(script, judging);
        if (result.exitCode === MISSING_SCRIPT) throw new Error(result.stderr);
        if (result.exitCode !== 0) return 0;
      }
    }
    return 1;
  }
}

/** What a script printed, as the policy sees it. */
function shown({ stdout, stderr, timedOut, cut }: RunResult, timeout: number): string {
  const printed = `${stdout}${stderr}`.trimEnd();
  const text = printed.length > SHOWN ? printed.slice(0, SHOWN) : printed;
  const notes = [
    ...(cut || printed.length > SHOWN ? ["[cut: the output is too long]"] : []),
    ...(timedOut ? [`[stopped after ${timeout} seconds]`] : []),
  ];
  return [text === "" && notes.length === 0 ? "(no output)" : text, ...notes].filter((part) => part !== "").join("\n");
}

export const osTasks: GeneratedTasks<OsTask> = {
  environment: "os",
  generate: generateTask,
  key: (task) => `${task.description} ${task.init.join("\n")}`,
  frozen: frozen.splits,
};

export function createOs(options: EnvironmentOptions = {}): Environment {
  const prompt = options.prompt ?? "full";
  const settings = settingsOf(options);
  const samples =
    options.data === undefined
      ? undefined
      : loadSamples(options.data, settings.scripts === undefined ? {} : { scripts: settings.scripts });
  const source = new TaskSource({ ...osTasks, samples });
  const engine = new LazyEngine(() => openEngine(options, settings));
  return {
    name: "os",
    tools,
    maxTurns: MAX_TURNS,
    // A start takes as long as its script; a turn's scripts are given much less.
    stepTimeoutMs: (PREPARE_SECONDS + settings.timeout) * 1000,
    split: (name) => source.split(name),
    level: (split, index) => source.level(split, index),
    async start(split, index) {
      const task = source.task(split, index);
      const machine = await (await engine.get()).start();
      const session = new OsSession(task, machine, settings, prompt);
      try {
        await session.prepare();
      } catch (error) {
        await session.close();
        throw error;
      }
      return session;
    },
    expert: (split, index) => expert(source.task(split, index)),
    randomAction,
    close: () => engine.close(),
  };
}

/** Runs the oracle's script and answers what it printed; finishes where the end is judged by the machine's state alone. */
function expert(task: OsTask): Expert {
  const { judge, example } = task;
  const call = (name: string, args: Record<string, unknown>) => ({
    text: "",
    calls: [{ id: "call_0", name, arguments: args }],
  });
  let ran = false;
  return {
    act(messages) {
      if (example !== null && !ran) {
        ran = true;
        return call("bash_action", { script: example });
      }
      if ("match" in judge) return call("answer_action", { answer: judge.match });
      const equals = judge.check.find((check) => check !== null && "equals" in check);
      if (equals !== undefined) return call("answer_action", { answer: (equals as { equals: string }).equals });
      if (!judge.check.includes(null)) return call("finish_action", { thought: "Done." });
      return call("answer_action", { answer: messages.at(-1)!.content.trim() });
    },
  };
}

const randomScripts = ["ls", "pwd", "ls -a /", "whoami", "cat *", "wc -l *", "find . -type f", "echo 1"];

/** A script out of a few, an answer out of a few, or the end. */
function randomAction(_: Session, random: () => number): { text: string; calls: ToolCall[] } {
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  const call = pick([
    { name: "bash_action", arguments: { script: pick(randomScripts) } },
    { name: "answer_action", arguments: { answer: String(Math.floor(random() * 10)) } },
    { name: "finish_action", arguments: { thought: "Done." } },
  ]);
  return { text: "", calls: [{ id: "call_0", ...call }] };
}
