/**
 * Who takes the turns of an episode: the policy that is trained, and in cross-policy sampling others beside it. Each sees
 * the whole episode so far, whoever said it.
 */
import type { Message, ToolSpec } from "../env/environment.ts";
import type { Conversation, TurnEnd, TurnOptions } from "../generate/engine.ts";
import type { EpisodeRecord } from "../rl/episode-record.ts";
import type { PolicyId } from "../rl/trajectory.ts";
import type { ParsedTurn } from "../text/turn-parser.ts";
import { type Dialect, readTurn } from "./dialect.ts";

export interface TurnRequest {
  /** The episode's tokens so far; the turn is appended. */
  record: EpisodeRecord;
  /** The same as messages. */
  messages: readonly Message[];
  /** 0-based. */
  turn: number;
  options: TurnOptions;
}

export type TakenTurn =
  | ({ end: "stop" } & ParsedTurn)
  /** Cut off before its policy ended it. */
  | { end: Exclude<TurnEnd, "stop"> };

export interface TurnPolicy {
  take(request: TurnRequest): Promise<TakenTurn>;
}

/** The other policies of one episode. */
export interface EpisodePool {
  /** Who takes this turn; null: the current policy. */
  choose(turn: number): { name: string; policy: TurnPolicy } | null;
}

export interface EnginePolicyOptions {
  /** Called at the policy's first turn: a conversation that holds the episode's prompt, or nothing. */
  open: () => Conversation;
  policy: PolicyId;
  dialect: Dialect;
  tools: readonly ToolSpec[];
}

/** A model of this process. Its conversation is opened at its first turn, and then catches up before each. */
export class EnginePolicy implements TurnPolicy {
  readonly #options: EnginePolicyOptions;
  #conversation: Conversation | undefined;

  constructor(options: EnginePolicyOptions) {
    this.#options = options;
  }

  async take({ record, options }: TurnRequest): Promise<TakenTurn> {
    const { open, policy, dialect, tools } = this.#options;
    this.#conversation ??= open();
    const conversation = this.#conversation;
    const start = record.length;
    conversation.extend(record.tokens.subarray(conversation.length));
    const end = await conversation.generate(options);
    record.sampledTurn(conversation.record, policy);
    if (end !== "stop") return { end };
    return { end, ...readTurn(dialect, tools, record.tokens.slice(start, record.length - 1)) };
  }
}
