/** Answers as OpenAI's API writes them: whole, or as the chunks of a stream. */
import { randomBytes } from "node:crypto";
import type { ToolCall } from "../env/environment.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import type { Delta } from "./answer.ts";
import type { ChoiceEvents, FinishReason } from "./completion.ts";
import type { ChatRequest } from "./request.ts";
import type { SampledToken } from "./sample.ts";

interface Identity {
  id: string;
  created: number;
  model: string;
}

export function newIdentity(model: string): Identity {
  return { id: `chatcmpl-${randomName()}`, created: Math.floor(Date.now() / 1000), model };
}

interface ChoiceSoFar {
  thinking: string;
  text: string;
  calls: WireCall[];
  tokens: SampledToken[];
  reason: FinishReason;
}

/** Collects a whole answer. */
export class WholeAnswer implements ChoiceEvents {
  readonly #choices: ChoiceSoFar[];

  constructor(choices: number) {
    this.#choices = Array.from({ length: choices }, () => ({
      thinking: "",
      text: "",
      calls: [],
      tokens: [],
      reason: "stop",
    }));
  }

  onToken(choice: number, token: SampledToken, delta: Delta): void {
    this.#choices[choice]!.tokens.push(token);
    this.#add(choice, delta);
  }

  onEnd(choice: number, delta: Delta, reason: FinishReason): void {
    this.#add(choice, delta);
    this.#choices[choice]!.reason = reason;
  }

  #add(at: number, { thinking = "", text = "", calls = [] }: Delta): void {
    const choice = this.#choices[at]!;
    choice.thinking += thinking;
    choice.text += text;
    choice.calls.push(...calls.map(toWireCall));
  }

  body(identity: Identity, request: ChatRequest, prompt: Uint32Array, tokenizer: Tokenizer) {
    const { id, created, model } = identity;
    const sampled = this.#choices.reduce((sum, { tokens }) => sum + tokens.length, 0);
    return {
      id,
      object: "chat.completion",
      created,
      model,
      choices: this.#choices.map(({ thinking, text, calls, tokens, reason }, index) => ({
        index,
        message: {
          role: "assistant",
          content: text === "" && calls.length > 0 ? null : text,
          refusal: null,
          ...(thinking !== "" && { reasoning_content: thinking }),
          ...(calls.length > 0 && { tool_calls: calls }),
        },
        logprobs: request.logProbs ? logProbsOf(tokens, tokenizer) : null,
        finish_reason: reason,
        ...(request.tokenIds && { token_ids: tokens.map(({ id }) => id) }),
      })),
      usage: usageOf(prompt.length, sampled),
      ...(request.tokenIds && { prompt_token_ids: [...prompt] }),
    };
  }
}

/** Tells an answer chunk by chunk. */
export class StreamedAnswer implements ChoiceEvents {
  readonly #identity: Identity;
  readonly #request: ChatRequest;
  readonly #prompt: Uint32Array;
  readonly #tokenizer: Tokenizer;
  readonly #send: (chunk: object) => void;
  #sampled = 0;

  constructor(
    identity: Identity,
    request: ChatRequest,
    prompt: Uint32Array,
    tokenizer: Tokenizer,
    send: (chunk: object) => void,
  ) {
    this.#identity = identity;
    this.#request = request;
    this.#prompt = prompt;
    this.#tokenizer = tokenizer;
    this.#send = send;
  }

  start(): void {
    const ids = this.#request.tokenIds && { prompt_token_ids: [...this.#prompt] };
    for (let index = 0; index < this.#request.choices; index++) {
      const choice = { index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null };
      this.#chunk([choice], ids || {});
    }
  }

  onToken(index: number, token: SampledToken, delta: Delta): void {
    this.#sampled++;
    const { logProbs, tokenIds } = this.#request;
    const wire = wireDelta(delta);
    // A token that adds nothing yet is told with its own chunk where it is asked for.
    if (Object.keys(wire).length === 0 && !logProbs && !tokenIds) return;
    this.#chunk([
      {
        index,
        delta: wire,
        logprobs: logProbs ? logProbsOf([token], this.#tokenizer) : null,
        finish_reason: null,
        ...(tokenIds && { token_ids: [token.id] }),
      },
    ]);
  }

  onEnd(index: number, delta: Delta, reason: FinishReason): void {
    this.#chunk([{ index, delta: wireDelta(delta), logprobs: null, finish_reason: reason }]);
  }

  finish(): void {
    if (this.#request.streamUsage) this.#chunk([], { usage: usageOf(this.#prompt.length, this.#sampled) });
  }

  #chunk(choices: object[], more: object = {}): void {
    const { id, created, model } = this.#identity;
    const usage = this.#request.streamUsage ? { usage: null } : {};
    this.#send({ id, object: "chat.completion.chunk", created, model, choices, ...usage, ...more });
  }
}

function wireDelta({ thinking, text, calls = [] }: Delta) {
  return {
    ...(thinking !== undefined && { reasoning_content: thinking }),
    ...(text !== undefined && { content: text }),
    ...(calls.length > 0 && { tool_calls: calls.map((call, index) => ({ index, ...toWireCall(call) })) }),
  };
}

type WireCall = ReturnType<typeof toWireCall>;

/** Within a turn calls are numbered; whoever keeps several turns needs ids that differ. */
function toWireCall({ name, arguments: args }: ToolCall) {
  return { id: `call_${randomName()}`, type: "function", function: { name, arguments: JSON.stringify(args) } };
}

function randomName(): string {
  return randomBytes(12).toString("hex");
}

/** The end token is among them: it was sampled. */
function logProbsOf(tokens: readonly SampledToken[], tokenizer: Tokenizer) {
  const content = tokens.map(({ id, logProb }) => {
    const token = tokenizer.decode([id]);
    const bytes = tokenizer.tokenBytes(id) ?? new TextEncoder().encode(token);
    return { token, logprob: logProb, bytes: [...bytes], top_logprobs: [] };
  });
  return { content, refusal: null };
}

function usageOf(prompt: number, completion: number) {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 0 },
  };
}
