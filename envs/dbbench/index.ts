/**
 * The DB task of AgentBench: a question about a table that must be queried or changed with SQL. Two tools, 15 turns,
 * reward 1 at commit when the answers match (reads) or the table is as the gold SQL leaves it (writes).
 */
import { z } from "zod";
import { defineTool } from "../../src/env/define.ts";
import type { Environment, Expert, Message, Session, ToolCall } from "../../src/env/environment.ts";
import { LazyEngine } from "../../src/env/lazy-engine.ts";
import type { EnvironmentOptions } from "../../src/env/registry.ts";
import { type GeneratedTasks, TaskSource } from "../../src/env/task-source.ts";
import { type Outcome, ToolSession } from "../../src/env/tool-session.ts";
import { AgentRLError } from "../../src/errors.ts";
import { type SqlDatabase, type SqlEngine, startEngine } from "./engine.ts";
import { generateTask } from "./generate.ts";
import { answersMatch } from "./grade.ts";
import { loadSamples } from "./load.ts";
import { settingsOf } from "./settings.ts";
import frozen from "./splits.json" with { type: "json" };
import { type DbTask, promptMessages } from "./task.ts";

const MAX_TURNS = 15;

const tools = [
  defineTool("execute_sql", "Runs one SQL statement on the database and returns its raw result.", {
    query: z.string().describe("The SQL statement, on one line."),
  }),
  defineTool("commit_final_answer", "Ends the task with the final answer.", {
    answers: z
      .array(z.string())
      .describe("The answers, one string each. Anything when the question changes the table."),
  }),
];

export class DbSession extends ToolSession {
  readonly messages: Message[];
  readonly task: DbTask;
  /** What the policy has seen last: material for the random policy. */
  lastResult = "";
  readonly #engine: SqlEngine;
  readonly #database: SqlDatabase;

  /** @param database Holds the task's tables; the session releases it. */
  constructor(engine: SqlEngine, database: SqlDatabase, task: DbTask, prompt: "full" | "brief") {
    super(tools, MAX_TURNS);
    this.task = task;
    this.messages = promptMessages(task, prompt);
    this.#engine = engine;
    this.#database = database;
  }

  protected override taskMetrics(): Record<string, number> {
    return { level: this.task.level };
  }

  /** Answers as a lone string or with bare numbers mean what they say; AgentBench takes them too. */
  protected override mend(call: ToolCall): ToolCall {
    const answers = call.name === "commit_final_answer" ? call.arguments?.answers : undefined;
    if (typeof answers === "string") return { ...call, arguments: { answers: [answers] } };
    if (!Array.isArray(answers)) return call;
    return {
      ...call,
      arguments: { answers: answers.map((answer) => (typeof answer === "number" ? String(answer) : answer)) },
    };
  }

  protected override async call(name: string, args: Record<string, unknown>): Promise<Outcome> {
    if (name === "execute_sql") {
      const { ok, text } = await this.#database.execute(args.query as string);
      this.lastResult = text;
      return { content: text, failed: !ok };
    }
    return { content: "Answer received.", reward: (await this.#correct(args.answers as string[])) ? 1 : 0 };
  }

  protected override say(): Outcome {
    return { content: "No tool call found. Call execute_sql, or commit_final_answer to finish." };
  }

  protected override release(): Promise<void> {
    return this.#database.release();
  }

  async #correct(answers: string[]): Promise<boolean> {
    const { goal } = this.task;
    if (goal.kind === "read") return answersMatch(answers, goal.answers);
    const got = await this.#database.md5();
    if (got === undefined) return false;
    return got === goal.md5 || got === (await goldMd5(this.#engine, this.task));
  }
}

/**
 * The tables' MD5 after the gold SQL on this engine. Undefined where that SQL fails or changes nothing here: then an
 * untouched table must not pass for a right answer, and only the sample's own MD5 counts.
 */
export async function goldMd5(engine: SqlEngine, task: DbTask): Promise<string | undefined> {
  if (task.sql === undefined) return undefined;
  const database = await engine.open(task.tables);
  try {
    const before = await database.md5();
    if (!(await database.execute(task.sql)).ok) return undefined;
    const after = await database.md5();
    return after === before ? undefined : after;
  } finally {
    await database.release();
  }
}

export const dbbenchTasks: GeneratedTasks<DbTask> = {
  environment: "dbbench",
  generate: generateTask,
  key: (task) => promptMessages(task, "brief")[1]!.content,
  frozen: frozen.splits,
};

/** @throws AgentRLError CONFIG for an unknown engine or setting, SAMPLE_FILE for data in another format. */
export function createDbbench(options: EnvironmentOptions = {}): Environment {
  const prompt = options.prompt ?? "full";
  const settings = settingsOf(options);
  const samples = options.data === undefined ? undefined : loadSamples(options.data);
  const source = new TaskSource({ ...dbbenchTasks, samples });
  const engine = new LazyEngine(() => startEngine(settings));
  return {
    name: "dbbench",
    tools,
    maxTurns: MAX_TURNS,
    split: (name) => source.split(name),
    level: (split, index) => source.level(split, index),
    async start(split, index) {
      const task = source.task(split, index);
      const started = await engine.get();
      return new DbSession(started, await started.open(task.tables), task, prompt);
    },
    expert: (split, index) => expert(source.task(split, index)),
    randomAction,
    close: () => engine.close(),
  };
}

/** Runs the gold SQL where there is one, then commits: two turns (one for reads that come with answers only). */
function expert(task: DbTask): Expert {
  const calls: [string, Record<string, unknown>][] = [];
  if (task.sql !== undefined) calls.push(["execute_sql", { query: task.sql }]);
  calls.push(["commit_final_answer", { answers: task.goal.kind === "read" ? task.goal.answers : ["done"] }]);
  let turn = 0;
  return {
    act() {
      const [name, args] = calls[Math.min(turn, calls.length - 1)]!;
      return { text: "", calls: [{ id: `call_${turn++}`, name, arguments: args }] };
    },
  };
}

/** A random tool; a random statement over the prompt's table and columns; or a commit of a word seen last. */
function randomAction(session: Session, random: () => number): { text: string; calls: ToolCall[] } {
  if (!(session instanceof DbSession)) {
    throw new AgentRLError("USAGE", "randomAction needs a session that this environment started");
  }
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  const seen = session.lastResult.match(/[\p{L}\p{N}]+/gu) ?? [];
  const asked = session.task.question.match(/[\p{L}\p{N}]+/gu) ?? [];
  const word = pick([...seen, ...asked, "0"]);
  if (random() < 0.5) {
    return { text: "", calls: [{ id: "call_0", name: "commit_final_answer", arguments: { answers: [word] } }] };
  }
  const table = pick(session.task.tables);
  const [a, b] = [pick(table.columns).name, pick(table.columns).name];
  const query = pick([
    `SELECT \`${a}\` FROM \`${table.name}\``,
    `SELECT \`${a}\` FROM \`${table.name}\` WHERE \`${b}\` = '${word}'`,
    `SELECT COUNT(*) FROM \`${table.name}\` WHERE \`${b}\` = '${word}'`,
    `UPDATE \`${table.name}\` SET \`${a}\` = '${word}'`,
    `DELETE FROM \`${table.name}\` WHERE \`${b}\` = '${word}'`,
  ]);
  return { text: "", calls: [{ id: "call_0", name: "execute_sql", arguments: { query } }] };
}
