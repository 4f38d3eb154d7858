/**
 * The loop that every tool-calling session shares: calls of a turn run in order, a wrong call gets an error text and the
 * episode goes on, turns are counted, and an engine fault ends the episode as "env error", never as a reward.
 */
import { AgentRLError } from "../errors.ts";
import { checkCall } from "./define.ts";
import type { Action, EndReason, Message, Session, StepResult, ToolCall, ToolSpec } from "./environment.ts";
import { observation } from "./observation.ts";

/** What one call (or one text turn) led to. */
export interface Outcome {
  /** Text of the tool (or user) message. */
  content: string;
  /** Set when the policy reached an end, right or wrong: its reward. */
  reward?: number;
  /** The call was well-formed but could not be carried out; counted as `failedCalls`. */
  failed?: boolean;
  metrics?: Record<string, number>;
}

export abstract class ToolSession implements Session {
  abstract readonly messages: Message[];
  readonly tools: readonly ToolSpec[];
  readonly maxTurns: number;
  #turns = 0;
  #state: "running" | "done" | "closed" = "running";
  /** Counted over the episode and reported when it ends. */
  readonly #counts = { invalidCalls: 0, failedCalls: 0, textTurns: 0 };

  constructor(tools: readonly ToolSpec[], maxTurns: number) {
    this.tools = tools;
    this.maxTurns = maxTurns;
  }

  /** Metrics of the task itself, for example its level. */
  protected abstract taskMetrics(): Record<string, number>;
  /** Carries out a call whose arguments fit the tool's schema. A throw is an engine fault. */
  protected abstract call(name: string, args: Record<string, unknown>): Outcome | Promise<Outcome>;
  /** Answers a turn without any call. */
  protected abstract say(text: string): Outcome | Promise<Outcome>;
  /** Frees what the session holds; called once. */
  protected release(): void | Promise<void> {}
  /** A last chance to mend a call before it meets the schema. */
  protected mend(call: ToolCall): ToolCall {
    return call;
  }

  async step(action: Action): Promise<StepResult> {
    if (this.#state !== "running") {
      throw new AgentRLError("USAGE", `step on a session that is ${this.#state}`, {
        hint: "start a new session for another episode",
      });
    }
    this.#turns++;
    const failedBefore = this.#failures;
    const messages: Message[] = [];
    try {
      const outcomes = action.calls.length === 0 ? [undefined] : action.calls;
      for (const call of outcomes) {
        const outcome = await (call === undefined ? this.#text(action.text) : this.#run(call));
        const content = observation(
          outcome.content,
          call === undefined ? "a turn without a call" : `tool ${call.name}`,
        );
        messages.push(
          call === undefined
            ? { role: "user", content }
            : { role: "tool", content, toolCallId: String(call.id), name: String(call.name) },
        );
        // Calls after the one that ended the episode are not run: there is nothing left for them to change.
        if (outcome.reward !== undefined) return this.#end(messages, "completed", outcome.reward, outcome.metrics);
      }
    } catch (error) {
      const what = error instanceof Error ? error.message : String(error);
      messages.push({ role: "user", content: `Internal error of the environment: ${what}` });
      return this.#end(messages, "env error", 0);
    }
    if (this.#turns >= this.maxTurns) return this.#end(messages, "turn limit", 0);
    return { messages, reward: 0, done: false, failedCalls: this.#failures - failedBefore };
  }

  get #failures(): number {
    return this.#counts.invalidCalls + this.#counts.failedCalls;
  }

  async close(): Promise<void> {
    if (this.#state === "closed") return;
    this.#state = "closed";
    await this.release();
  }

  async #text(text: string): Promise<Outcome> {
    const outcome = await this.say(typeof text === "string" ? text : "");
    if (outcome.reward === undefined) this.#counts.textTurns++;
    return outcome;
  }

  async #run(call: ToolCall): Promise<Outcome> {
    const checked = checkCall(this.tools, this.mend(call));
    if (!checked.ok) {
      this.#counts.invalidCalls++;
      return { content: checked.error };
    }
    const outcome = await this.call(checked.name, checked.args);
    if (outcome.failed === true) this.#counts.failedCalls++;
    return outcome;
  }

  #end(messages: Message[], endReason: EndReason, reward: number, metrics: Record<string, number> = {}): StepResult {
    this.#state = "done";
    return {
      messages,
      reward,
      done: true,
      endReason,
      metrics: { turns: this.#turns, ...this.#counts, ...this.taskMetrics(), ...metrics },
    };
  }
}
