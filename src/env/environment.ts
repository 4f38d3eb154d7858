/**
 * What an environment is. One interface for every task: messages and tools in, tool calls (or text) back, a reward.
 * Where a session runs (this process, a worker, a container, behind HTTP) is not visible here.
 */
import type { z } from "zod";

/** A tool call as the policy wrote it: arguments are an object, by name. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: Record<string, unknown>;
}

/** An OpenAI-style chat message. */
export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  /** For role "assistant": what it thought before, which is no part of `content`. */
  thinking?: string;
  toolCalls?: ToolCall[];
  /** For role "tool": which call this answers, and the tool's name. */
  toolCallId?: string;
  name?: string;
}

export interface ToolSpec {
  name: string;
  description: string;
  parameters: z.ZodObject;
  /** What the policy is shown instead of `parameters`' own JSON Schema: for tools that came with a schema in JSON. */
  jsonSchema?: Record<string, unknown>;
}

/** What the policy said in one turn, parsed. `calls` may be empty: then `text` is the whole turn. */
export interface Action {
  text: string;
  calls: ToolCall[];
  /** What the policy thought, where it did: no part of `text`, and nothing that an environment should judge. */
  thinking?: string;
}

/** How an episode ended. Only the policy's own endings are trained on. */
export type EndReason =
  | "completed"
  | "turn limit"
  | "context limit"
  | "length limit"
  | "invalid action"
  | "env error"
  | "timeout"
  | "cancelled";

export interface StepResult {
  /** New messages only: one "tool" message for each call, or a "user" message answering text. */
  messages: Message[];
  /** Reward of this step; an episode's reward is the sum. */
  reward: number;
  done: boolean;
  /** Set when done. "completed" says that the policy reached an end, right or wrong. */
  endReason?: EndReason;
  /** Calls of this step that were refused or could not be carried out; the messages say why. */
  failedCalls?: number;
  /** Extra numbers for the metrics (for example f1). */
  metrics?: Record<string, number>;
}

export interface Session {
  /** First messages of the episode, ready for the chat template. */
  readonly messages: Message[];
  step(action: Action): Promise<StepResult>;
  /** Frees what the session holds; safe to call twice and in mid-episode. */
  close(): Promise<void>;
}

/** A fixed list of task indices. `hash` is SHA-256 over the canonical JSON of the tasks themselves. */
export interface Split {
  name: string;
  indices: number[];
  hash: string;
}

/** A scripted policy with the answer in hand: next action, given what the session said so far. */
export interface Expert {
  act(messages: Message[]): Action;
}

export interface Environment {
  readonly name: string;
  readonly tools: ToolSpec[];
  readonly maxTurns: number;
  /**
   * Milliseconds that a start or a step may take, where the environment says so: whoever keeps its sessions (a thread, a
   * worker's host process, a controller) gives one up that takes longer, and those who wait for an answer wait for longer.
   */
  readonly stepTimeoutMs?: number;
  split(name: string): Split;
  /** Difficulty of a graded task, 1 the easiest; 0 where tasks are not graded. */
  level(split: string, index: number): number;
  /** `seed` drives whatever the session draws at random; the task itself depends on split and index alone. */
  start(split: string, index: number, seed: number): Promise<Session>;
  /** A scripted expert for a task, where one exists. */
  expert?(split: string, index: number, seed: number): Expert;
  /** A uniformly random but well-formed action: the floor of every comparison. */
  randomAction?(session: Session, random: () => number): Action;
  close(): Promise<void>;
}
