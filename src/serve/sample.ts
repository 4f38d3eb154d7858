/** An answer, sampled token by token, so that a stop string or a listener can end it after any of them. */
import type { Conversation } from "../generate/engine.ts";
import type { Sampling, SeedWords } from "../generate/sampling.ts";
import type { Answer, Delta } from "./answer.ts";

export interface SampledToken {
  id: number;
  /** Of the whole vocabulary at the sampling temperature. */
  logProb: number;
}

export interface AnswerLimits {
  stopTokens: readonly number[];
  maxTokens?: number | undefined;
  sampling: Sampling;
  seed: SeedWords;
  /** Aborted, the answer ends before its next token. */
  signal?: AbortSignal;
}

export type AnswerEnd = "stop" | "length" | "context" | "interrupted";

/** The same tokens as one turn of the engine: a token's draw depends on its position, not on how turns are cut. */
export async function sampleAnswer(
  conversation: Conversation,
  answer: Answer,
  limits: AnswerLimits,
  onToken: (token: SampledToken, delta: Delta) => void,
): Promise<AnswerEnd> {
  const { stopTokens, maxTokens = Number.POSITIVE_INFINITY, sampling, seed, signal } = limits;
  const options = { stopTokens, maxTokens: 1, sampling, seed };
  for (let sampled = 0; sampled < maxTokens; sampled++) {
    if (signal?.aborted) return "interrupted";
    const end = await conversation.generate(options);
    const { record } = conversation;
    const at = record.length - 1;
    const id = record.tokens[at]!;
    onToken({ id, logProb: record.logProbs[at]! }, answer.push(id));
    if (answer.ended) return "stop";
    if (end === "context") return "context";
  }
  return "length";
}

/** Every safe integer, and every choice, has counter words of its own. */
export function seedWords(seed: number, choice = 0): SeedWords {
  return { key: seed >>> 0, group: Math.floor(seed / 2 ** 32) >>> 0, sample: choice };
}
