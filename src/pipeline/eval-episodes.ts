/**
 * Plays the episodes of an evaluation, several at once, whatever the policy is. A fault of the environment costs a retry; an
 * episode that fails in every try is reported as a fault, apart from the rewards.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Action, EndReason, Environment, Message, Session, StepResult } from "../env/environment.ts";
import { AgentRLError, oneLine } from "../errors.ts";
import { mix32 } from "../rl/sampler.ts";
import { assertNoFault, deadlineOf, isEnvironmentFault, startSession, withDeadline } from "./environment-faults.ts";

/** Which episode: a task of the split in one of the runs. */
export interface EpisodeRef {
  run: number;
  /** Place in the evaluated list. */
  position: number;
  /** Index of the task in its split. */
  index: number;
}

export interface PlayedEpisode extends EpisodeRef {
  type: "episode";
  reward: number;
  endReason: EndReason;
  metrics: Record<string, number>;
  turns: number;
  /** Tries that the environment failed in before. */
  retries: number;
  /** The whole transcript. */
  messages: Message[];
  /** Which of several policies took each turn. */
  policies?: string[];
  seconds: number;
}

export interface FaultedEpisode extends EpisodeRef {
  type: "fault";
  tries: number;
  error: string;
}

export type EvaluatedEpisode = PlayedEpisode | FaultedEpisode;

/** Takes the turns of one episode. */
export interface Player {
  play(episode: PlayRequest): Promise<{ endReason: EndReason; policies?: string[] }>;
}

export interface PlayRequest {
  environment: Environment;
  session: RecordedSession;
  split: string;
  ref: EpisodeRef;
  /** Of the session, and of whatever the policy draws. */
  seed: number;
  maxTurns: number;
}

export interface PlayOptions {
  environment: Environment;
  split: string;
  refs: readonly EpisodeRef[];
  player: Player;
  maxTurns: number;
  concurrency: number;
  seed: number;
  /** @default 3 */
  tries?: number;
  onEpisode?: (episode: EvaluatedEpisode) => void;
}

/** Episodes in a row that the environment fails in every try: then it is broken, not unlucky. */
const maxFaultsInARow = 10;

/** In the order of `refs`. @throws what is no fault of the environment, or its last fault when it fails again and again. */
export async function playEpisodes(options: PlayOptions): Promise<EvaluatedEpisode[]> {
  const { refs, concurrency, onEpisode } = options;
  const results: EvaluatedEpisode[] = new Array(refs.length);
  let next = 0;
  let faultsInARow = 0;
  let stopped = false;
  const playSome = async () => {
    while (next < refs.length && !stopped) {
      const at = next++;
      try {
        const result = await playOne(options, refs[at]!);
        results[at] = result;
        onEpisode?.(result);
        faultsInARow = result.type === "fault" ? faultsInARow + 1 : 0;
        if (faultsInARow >= maxFaultsInARow) throw brokenEnvironment(options.environment, result as FaultedEpisode);
      } catch (error) {
        stopped = true;
        throw error;
      }
    }
  };
  const workers = await Promise.allSettled(Array.from({ length: Math.min(concurrency, refs.length) }, playSome));
  for (const worker of workers) if (worker.status === "rejected") throw worker.reason;
  return results;
}

async function playOne(options: PlayOptions, ref: EpisodeRef): Promise<EvaluatedEpisode> {
  const { tries = 3 } = options;
  for (let attempt = 1; ; attempt++) {
    try {
      return await tryOne(options, ref, attempt - 1);
    } catch (error) {
      if (!isEnvironmentFault(error)) throw error;
      if (attempt >= tries) return { type: "fault", ...ref, tries: attempt, error: error.message };
      await delay(50 * 2 ** attempt);
    }
  }
}

async function tryOne(options: PlayOptions, ref: EpisodeRef, retries: number): Promise<PlayedEpisode> {
  const { environment, split, player, maxTurns } = options;
  const deadline = deadlineOf(environment);
  const started = performance.now();
  const seed = ref.run === 0 ? options.seed : mix32(options.seed, ref.run);
  const level = environment.level(split, ref.index);
  const session = await startSession(environment, split, ref.index, seed);
  const recorded = new RecordedSession(environment.name, session, deadline);
  try {
    const { endReason, policies } = await player.play({ environment, session: recorded, split, ref, seed, maxTurns });
    return {
      type: "episode",
      ...ref,
      reward: recorded.reward,
      endReason,
      // Where tasks are not graded here, their worker may know better.
      metrics: level === 0 ? recorded.metrics : { ...recorded.metrics, level },
      turns: recorded.turns,
      retries,
      messages: recorded.transcript,
      ...(policies && { policies }),
      seconds: (performance.now() - started) / 1000,
    };
  } finally {
    await recorded.close();
  }
}

/** A session that keeps its transcript, sums its reward up, and throws what the environment itself failed in. */
export class RecordedSession implements Session {
  readonly messages: Message[];
  /** The first messages, and each turn with its answer. */
  readonly transcript: Message[];
  readonly metrics: Record<string, number> = {};
  reward = 0;
  turns = 0;
  readonly #name: string;
  readonly #session: Session;
  readonly #timeoutMs: number;

  constructor(name: string, session: Session, timeoutMs: number) {
    this.#name = name;
    this.#session = session;
    this.#timeoutMs = timeoutMs;
    this.messages = session.messages;
    this.transcript = [...session.messages];
  }

  /** What the environment started: a scripted policy may look into it. */
  get inner(): Session {
    return this.#session;
  }

  /** @throws AgentRLError ENVIRONMENT when the step fails or does not return in time. */
  async step(action: Action): Promise<StepResult> {
    this.said(action);
    const result = await withDeadline(this.#session.step(action), this.#timeoutMs, `${this.#name} step`);
    this.transcript.push(...result.messages);
    this.reward += result.reward;
    Object.assign(this.metrics, result.metrics);
    assertNoFault(result, this.#name);
    return result;
  }

  /** Notes a turn that the environment is not asked about, since the policy was cut off in it. */
  said({ text, calls }: Action): void {
    this.turns++;
    this.transcript.push({ role: "assistant", content: text, ...(calls.length > 0 && { toolCalls: calls }) });
  }

  async close(): Promise<void> {
    // What a closing session fails in changes nothing about the episode that it has played.
    await withDeadline(this.#session.close(), this.#timeoutMs, `${this.#name} close`).catch(() => {});
  }
}

/** The turns of a policy that takes messages and gives actions; it may end the episode by giving a reason instead. */
export async function converse(
  { session, maxTurns }: PlayRequest,
  act: (messages: readonly Message[], turn: number) => Action | EndReason | Promise<Action | EndReason>,
): Promise<EndReason> {
  for (let turn = 0; turn < maxTurns; turn++) {
    const action = await act(session.transcript, turn);
    if (typeof action === "string") return action;
    const { done, endReason } = await session.step(action);
    if (done) return endReason ?? "completed";
  }
  return "turn limit";
}

function brokenEnvironment({ name }: Environment, { error, tries }: FaultedEpisode): AgentRLError {
  return new AgentRLError("ENVIRONMENT", `Environment ${name} failed ${maxFaultsInARow} episodes in a row`, {
    got: oneLine(error),
    expected: `an episode that ends within ${tries} tries`,
    hint: "mend the cause above; an evaluation with --out goes on from there with --resume",
  });
}
