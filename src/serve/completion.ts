/**
 * One request, computed: the prompt is fed once, each further choice forks it, and every token is told as it is sampled.
 * Token n of choice i is a pure function of (weights, prompt, sampling, seed, i, n), whatever else the engine computes.
 */
import type { Conversation, Engine } from "../generate/engine.ts";
import type { Dialect } from "../pipeline/dialect.ts";
import { Answer, type Delta } from "./answer.ts";
import { ApiError } from "./api-error.ts";
import type { ChatRequest } from "./request.ts";
import { type SampledToken, sampleAnswer, seedWords } from "./sample.ts";

export type FinishReason = "stop" | "length" | "tool_calls";

export interface ChoiceEvents {
  /** One token and what it adds to the answer, often nothing. */
  onToken(choice: number, token: SampledToken, delta: Delta): void;
  /** What is known only at the end. */
  onEnd(choice: number, delta: Delta, reason: FinishReason): void;
}

export interface CompletionModel {
  engine: Engine;
  dialect: Dialect;
}

/** @throws ApiError 400 for a prompt that the context cannot hold, or that the chat template refuses. */
export function promptOf({ engine, dialect }: CompletionModel, { messages, tools }: ChatRequest): Uint32Array {
  const prompt = dialect.template.renderPrompt(messages, tools);
  if (prompt.length < engine.contextLimit) return prompt;
  throw new ApiError(
    400,
    `This model's maximum context length is ${engine.contextLimit} tokens; the messages are ${prompt.length}, and leave no room for an answer.`,
    { param: "messages", code: "context_length_exceeded" },
  );
}

/**
 * Ends early, with the signal's reason, when it is aborted: the conversations are closed in the step under way.
 * The caller holds a place for every choice.
 */
export async function complete(
  model: CompletionModel,
  request: ChatRequest,
  prompt: Uint32Array,
  events: ChoiceEvents,
  signal: AbortSignal,
): Promise<void> {
  const { engine } = model;
  signal.throwIfAborted();
  const open: Conversation[] = [];
  const close = () => {
    for (const conversation of open) conversation.close();
  };
  signal.addEventListener("abort", close);
  try {
    const first = engine.open(prompt);
    open.push(first);
    if (request.choices > 1) await first.prefill();
    while (open.length < request.choices) open.push(first.fork());
    await Promise.all(open.map((conversation, choice) => sampleChoice(model, request, conversation, choice, events)));
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", close);
    close();
  }
}

async function sampleChoice(
  { dialect }: CompletionModel,
  { tools, sampling, seed, maxTokens, stop }: ChatRequest,
  conversation: Conversation,
  choice: number,
  events: ChoiceEvents,
): Promise<void> {
  const { stopTokens } = dialect;
  const answer = new Answer({ dialect, tools, readCalls: tools.length > 0, stop });
  const limits = { stopTokens, maxTokens, sampling, seed: seedWords(seed, choice) };
  const end = await sampleAnswer(conversation, answer, limits, (token, delta) => events.onToken(choice, token, delta));
  const last = answer.end();
  const finished = last.calls === undefined ? "stop" : "tool_calls";
  events.onEnd(choice, last, end === "stop" ? finished : "length");
}
