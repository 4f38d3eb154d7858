/**
 * One episode: an environment session and a conversation take turns until one of them ends it. Training, evaluation
 * and (later) serving run this same loop, so what is measured is what is trained.
 */
import type { EndReason, Environment, Message, Session } from "../env/environment.ts";
import { AgentRLError } from "../errors.ts";
import type { Conversation, TurnEnd } from "../generate/engine.ts";
import type { Sampling, SeedWords } from "../generate/sampling.ts";
import { PolicyId, type Trajectory, type Turn } from "../rl/trajectory.ts";
import type { ChatTemplate } from "../text/chat-template.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import { parseAction } from "../text/tool-calls.ts";

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
  conversation: Conversation;
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

/** Tokens of the first messages, ready to open a conversation with. */
export function promptTokens(dialect: Dialect, environment: Environment, messages: readonly Message[]): Uint32Array {
  return dialect.template.renderPrompt([...messages], environment.tools);
}

/**
 * Plays the episode and returns its record. A fault of the environment is thrown, never turned into a reward; the
 * caller retries the sample. The conversation must hold the prompt and is left open.
 */
export async function runEpisode(request: EpisodeRequest): Promise<Trajectory> {
  const { session, conversation, dialect, limits, sampling, seed, identity } = request;
  const stepMs = deadlineOf(request.environment);
  const started = performance.now();
  const turns: Turn[] = [];
  const metrics: Record<string, number> = {};
  let environmentMs = 0;
  let endReason: EndReason | null = null;

  while (endReason === null) {
    const start = conversation.length;
    const end = await conversation.generate({
      stopTokens: dialect.stopTokens,
      maxTokens: limits.maxTokensPerTurn,
      sampling,
      seed,
    });
    const turn: Turn = { start, end: conversation.length, reward: 0, parseFailure: false };
    turns.push(turn);
    if (end !== "stop") {
      endReason = limitReason(end);
      break;
    }
    const said = conversation.record.tokens.slice(start, conversation.length - 1);
    const { action, parseFailure } = parseAction(dialect.tokenizer.decode(said));
    turn.parseFailure = parseFailure;
    if (parseFailure && (limits.endOnFailure ?? "never") !== "never") {
      endReason = "invalid action";
      break;
    }

    const before = performance.now();
    const result = await withDeadline(session.step(action), stepMs, `${identity.task} step`);
    environmentMs += performance.now() - before;
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
    if (!conversation.fits(answer.length)) {
      endReason = "context limit";
      break;
    }
    conversation.extend(answer);
  }

  if (endReason === "env error" || endReason === "timeout") {
    throw new AgentRLError("ENVIRONMENT", `The environment ended an episode with '${endReason}'`, {
      where: `${identity.task} ${identity.split}[${identity.index}]`,
    });
  }
  const { record } = conversation;
  const n = record.length;
  const total = performance.now() - started;
  return {
    ...identity,
    tokens: record.tokens.slice(0, n),
    sampled: record.sampled.slice(0, n),
    logProbs: record.logProbs.slice(0, n),
    keptMass: record.keptMass.slice(0, n),
    policy: new Uint8Array(n).fill(PolicyId.current),
    version: record.version.slice(0, n),
    oldestVersion: record.oldestVersion.slice(0, n),
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
