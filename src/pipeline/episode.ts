/**
 * One episode: an environment session and a conversation take turns until one of them ends it. Training, evaluation
 * and (later) serving run this same loop, so what is measured is what is trained.
 */
import { currentPolicy } from "../config/cross-policy.ts";
import type { EndReason, Environment, Message, Session, StepResult } from "../env/environment.ts";
import { AgentRLError, oneLine } from "../errors.ts";
import type { Conversation, TurnEnd } from "../generate/engine.ts";
import type { Sampling, SeedWords } from "../generate/sampling.ts";
import { EpisodeRecord } from "../rl/episode-record.ts";
import { PolicyId, type Trajectory, type Turn } from "../rl/trajectory.ts";
import type { ChatTemplate } from "../text/chat-template.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import { EnginePolicy, type EpisodePool } from "./turn-policy.ts";

/** The policy's text side: how messages become tokens and back. */
export interface Dialect {
  tokenizer: Tokenizer;
  template: ChatTemplate;
  /** Tokens that end a turn. */
  stopTokens: readonly number[];
}

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
}

/** Milliseconds for a start or a step of an environment that sets itself no deadline. */
const unboundedMs = 60_000;
/** So that an environment's own deadline, which says more, comes first. */
const marginMs = 5_000;

/**
 * Milliseconds after which a start, a step or a close of this environment counts as hung. Where the environment has a
 * deadline of its own (`stepTimeoutMs`), that one decides, also above a minute; this one is for what slips through it.
 */
export function deadlineOf({ stepTimeoutMs = 0 }: Environment): number {
  return Math.max(unboundedMs, stepTimeoutMs + marginMs);
}

/** Rejects with AgentRLError "ENVIRONMENT" after `ms`: an environment that hangs must not hang the run. */
export async function withDeadline<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(
        new AgentRLError("ENVIRONMENT", `${what} did not answer in time`, { expected: `an answer within ${ms} ms` }),
      );
    }, ms);
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Starts a session within the environment's deadline; one that comes up after all is not left open.
 * @throws AgentRLError ENVIRONMENT
 */
export async function startSession(
  environment: Environment,
  split: string,
  index: number,
  seed: number,
): Promise<Session> {
  const opening = environment.start(split, index, seed);
  try {
    return await withDeadline(opening, deadlineOf(environment), `${environment.name} start`);
  } catch (error) {
    opening.then(
      (late) => late.close(),
      () => {},
    );
    throw error;
  }
}

/** Whether it is a fault of the environment, for which the sample is played anew; all else is a bug or a broken machine. */
export function isEnvironmentFault(error: unknown): error is AgentRLError {
  return error instanceof AgentRLError && error.code === "ENVIRONMENT";
}

/** @throws AgentRLError ENVIRONMENT, with what it said, when the step ended the episode by a fault of the environment. */
export function assertNoFault({ endReason, messages }: StepResult, where: string): void {
  if (endReason !== "env error" && endReason !== "timeout") return;
  const said = messages.at(-1)?.content;
  throw new AgentRLError("ENVIRONMENT", `The environment ended an episode with '${endReason}'`, {
    where,
    ...(said !== undefined && { got: oneLine(said) }),
  });
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
  const stepMs = deadlineOf(request.environment);
  const started = performance.now();
  const record = new EpisodeRecord();
  record.given(conversation.record.tokens.subarray(0, conversation.length));
  const messages = [...session.messages];
  const current = new EnginePolicy({
    open: () => conversation,
    policy: PolicyId.current,
    tokenizer: dialect.tokenizer,
  });
  const options = { stopTokens: dialect.stopTokens, maxTokens: limits.maxTokensPerTurn, sampling, seed };
  const turns: Turn[] = [];
  const metrics: Record<string, number> = {};
  let environmentMs = 0;
  let endReason: EndReason | null = null;

  while (endReason === null) {
    const start = record.length;
    const chosen = pool?.choose(turns.length);
    const taken = await (chosen?.policy ?? current).take({ record, messages, turn: turns.length, options });
    const turn: Turn = { start, end: record.length, reward: 0, parseFailure: false };
    if (pool !== undefined) turn.policy = chosen?.name ?? currentPolicy;
    turns.push(turn);
    if (taken.end !== "stop") {
      endReason = limitReason(taken.end);
      break;
    }
    const { action, parseFailure } = taken;
    turn.parseFailure = parseFailure;
    if (parseFailure && (limits.endOnFailure ?? "never") !== "never") {
      endReason = "invalid action";
      break;
    }

    const before = performance.now();
    const result = await withDeadline(session.step(action), stepMs, `${identity.task} step`);
    environmentMs += performance.now() - before;
    assertNoFault(result, `${identity.task} ${identity.split}[${identity.index}]`);
    turn.reward = result.reward;
    Object.assign(metrics, result.metrics);
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
    messages.push({ role: "assistant", content: action.text, toolCalls: action.calls }, ...result.messages);
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
    timings: { total, environment: environmentMs, generation: total - environmentMs },
  };
}

function limitReason(end: Exclude<TurnEnd, "stop">): EndReason {
  return end === "context" ? "context limit" : "length limit";
}
