/**
 * One episode: an environment session and a conversation take turns until one of them ends it. Training, evaluation
 * and `agentrl chat` run this same loop, so what is measured and shown is what is trained.
 */
import { currentPolicy } from "../config/cross-policy.ts";
import type { Action, EndReason, Environment, Message, Session } from "../env/environment.ts";
import type { Conversation, TurnEnd } from "../generate/engine.ts";
import type { Sampling, SeedWords } from "../generate/sampling.ts";
import { EpisodeRecord } from "../rl/episode-record.ts";
import { fitMessages } from "../rl/fit-messages.ts";
import { PolicyId, type Trajectory, type Turn } from "../rl/trajectory.ts";
import { realClock } from "./clock.ts";
import type { Dialect } from "./dialect.ts";
import { assertNoFault, deadlineOf, withDeadline } from "./environment-faults.ts";
import { EnginePolicy, type EpisodePool } from "./turn-policy.ts";
import { Waits } from "./waits.ts";

export interface EpisodeLimits {
  maxTurns: number;
  maxTokensPerTurn: number;
  /** What ends the episode as an invalid action: a turn that does not parse; or also a call that is refused. */
  endOnFailure?: "never" | "parse" | "call";
}

export interface EpisodeRequest {
  environment: Environment;
  session: Session;
  /** The current policy's, holding the prompt. */
  conversation: Conversation;
  /** Policies that take turns beside the current one. */
  pool?: EpisodePool;
  dialect: Dialect;
  limits: EpisodeLimits;
  sampling: Sampling;
  seed: SeedWords;
  identity: { task: string; split: string; index: number; group: number; sample: number; seed: number };
  /** Where it says what it waits for. */
  waits?: Waits;
  /** The record gets the messages as well, as JSON in at most so many bytes. */
  messageBytes?: number;
}

/** Tokens of the first messages, ready to open a conversation with. */
export function promptTokens(dialect: Dialect, environment: Environment, messages: readonly Message[]): Uint32Array {
  return dialect.template.renderPrompt([...messages], environment.tools);
}

/**
 * Plays the episode and returns its record. A fault of the environment is thrown, never turned into a reward; the
 * caller retries the sample. The conversation is left open.
 */
export async function runEpisode(request: EpisodeRequest): Promise<Trajectory> {
  const { session, conversation, pool, dialect, limits, sampling, seed, identity } = request;
  const { waits = new Waits(realClock), messageBytes } = request;
  const stepMs = deadlineOf(request.environment);
  const started = performance.now();
  const record = new EpisodeRecord();
  record.given(conversation.record.tokens.subarray(0, conversation.length));
  const messages = [...session.messages];
  const current = new EnginePolicy({
    open: () => conversation,
    policy: PolicyId.current,
    dialect,
    tools: request.environment.tools,
  });
  const options = { stopTokens: dialect.stopTokens, maxTokens: limits.maxTokensPerTurn, sampling, seed };
  const turns: Turn[] = [];
  const metrics: Record<string, number> = {};
  let environmentMs = 0;
  let endReason: EndReason | null = null;

  while (endReason === null) {
    const start = record.length;
    const chosen = pool?.choose(turns.length);
    const taken = await waits.during("generation", () =>
      (chosen?.policy ?? current).take({ record, messages, turn: turns.length, options }),
    );
    const turn: Turn = { start, end: record.length, reward: 0, parseFailure: false };
    if (pool !== undefined) turn.policy = chosen?.name ?? currentPolicy;
    turns.push(turn);
    if (taken.end !== "stop") {
      messages.push({ role: "assistant", content: dialect.tokenizer.decode(record.tokens.slice(start)) });
      endReason = limitReason(taken.end);
      break;
    }
    const { action, parseFailure } = taken;
    turn.parseFailure = parseFailure;
    messages.push(toMessage(action));
    if (parseFailure && (limits.endOnFailure ?? "never") !== "never") {
      endReason = "invalid action";
      break;
    }

    const before = performance.now();
    const result = await waits.during(`environment ${identity.task}`, () =>
      withDeadline(session.step(action), stepMs, `${identity.task} step`),
    );
    environmentMs += performance.now() - before;
    assertNoFault(result, `${identity.task} ${identity.split}[${identity.index}]`);
    turn.reward = result.reward;
    Object.assign(metrics, result.metrics);
    messages.push(...result.messages);
    if (result.done) {
      endReason = result.endReason ?? "completed";
      break;
    }
    if (limits.endOnFailure === "call" && (result.failedCalls ?? 0) > 0) {
      endReason = "invalid action";
      break;
    }
    if (turns.length >= limits.maxTurns) {
      endReason = "turn limit";
      break;
    }
    const answer = dialect.template.renderAppended(result.messages);
    if (record.length + answer.length >= conversation.contextLimit) {
      endReason = "context limit";
      break;
    }
    record.given(answer);
  }

  const total = performance.now() - started;
  return {
    ...identity,
    ...record.arrays(),
    temperature: sampling.temperature,
    turns,
    reward: turns.reduce((sum, turn) => sum + turn.reward, 0),
    endReason,
    metrics,
    timings: { ended: Date.now(), total, environment: environmentMs, generation: total - environmentMs },
    ...(messageBytes !== undefined && { messages: fitMessages(messages, messageBytes) }),
  };
}

function toMessage({ text, calls, thinking }: Action): Message {
  return { role: "assistant", content: text, toolCalls: calls, ...(thinking !== undefined && { thinking }) };
}

function limitReason(end: Exclude<TurnEnd, "stop">): EndReason {
  return end === "context" ? "context limit" : "length limit";
}
