/**
 * A policy behind an OpenAI-compatible endpoint (POST /chat/completions), as vLLM, SGLang, llama.cpp, Ollama and the hosted
 * services offer it. What the model does wrong in a call is passed on, for the environment to refuse in words; what the
 * server does wrong is tried again.
 */
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { toolsAsJson } from "../env/define.ts";
import type { Action, Message, ToolCall, ToolSpec } from "../env/environment.ts";
import { AgentRLError } from "../errors.ts";
import type { EndpointToken } from "./endpoint-tokens.ts";

export interface EndpointOptions {
  /** Base URL, to which /chat/completions is added. */
  url: string;
  model: string;
  apiKey?: string;
  /** The server's own default where absent. */
  temperature?: number;
  maxTokensPerTurn?: number;
  /** Milliseconds that one request may take. @default 300000 */
  timeoutMs?: number;
  /** Requests for one turn, the first included. @default 8 */
  tries?: number;
  /** Wait after the first failure, doubled after each; a `Retry-After` of the server wins. @default 500 */
  backoffMs?: number;
  /** Milliseconds from the first request after which no further one is begun; default: `tries` alone decide. */
  giveUpMs?: number;
  /** Ask for the log-probability of every sampled token. */
  logProbs?: boolean;
}

export interface ChatRequest {
  messages: readonly Message[];
  tools: readonly ToolSpec[];
  seed: number;
  /** Default: the endpoint's own limit. */
  maxTokens?: number;
}

export interface Turn {
  action: Action;
  /** Why the turn ended: the policy's own end, its limit of tokens, or a conversation that its context cannot hold. */
  end: "stop" | "length" | "context";
  /** What the server says that it sampled; only where it was asked, and says it. */
  tokens?: EndpointToken[];
}

const longestWaitMs = 120_000;

const responseSchema = z.object({
  choices: z
    .array(
      z.object({
        finish_reason: z.string().nullish(),
        logprobs: z
          .object({
            content: z
              .array(z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()).nullish() }))
              .nullish(),
          })
          .nullish(),
        message: z.object({
          content: z.string().nullish(),
          tool_calls: z
            .array(
              z.object({
                id: z.string().nullish(),
                function: z.object({ name: z.string(), arguments: z.unknown() }),
              }),
            )
            .nullish(),
        }),
      }),
    )
    .min(1),
});

export class Endpoint {
  /** `http://host/v1#model`, as on the command line. */
  readonly name: string;
  readonly #options: EndpointOptions;
  readonly #url: string;

  constructor(options: EndpointOptions) {
    this.#options = options;
    const base = new URL(options.url);
    this.#url = `${base.href.replace(/\/$/, "")}/chat/completions`;
    this.name = `${base.host}${base.pathname.replace(/\/$/, "")}#${options.model}`;
  }

  /** @throws AgentRLError PIPELINE when the server refuses the request, or answers none of the tries. */
  async complete(request: ChatRequest): Promise<Turn> {
    const {
      model,
      temperature,
      tries = 8,
      backoffMs = 500,
      giveUpMs = Number.POSITIVE_INFINITY,
      logProbs,
    } = this.#options;
    const maxTokens = request.maxTokens ?? this.#options.maxTokensPerTurn;
    const body = JSON.stringify({
      model,
      messages: request.messages.map(toWire),
      ...(request.tools.length > 0 && { tools: toolsAsJson(request.tools) }),
      seed: request.seed,
      ...(temperature !== undefined && { temperature }),
      ...(maxTokens !== undefined && { max_tokens: maxTokens }),
      ...(logProbs && { logprobs: true }),
    });
    const started = performance.now();
    for (let attempt = 1; ; attempt++) {
      const answer = await this.#post(body);
      if (answer.ok) return answer.turn;
      const backoff = backoffMs * 2 ** (attempt - 1) * (0.5 + Math.random());
      const wait = Math.min(longestWaitMs, answer.retryAfterMs ?? backoff);
      const late = performance.now() - started + wait > giveUpMs;
      if (answer.final || late || attempt >= tries) throw this.#failure(answer.error, attempt);
      await delay(wait);
    }
  }

  async #post(body: string): Promise<Answer> {
    const { apiKey, timeoutMs = 300_000 } = this.#options;
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.#url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
        },
        body,
        signal: AbortSignal.timeout(timeoutMs),
      });
      text = await response.text();
    } catch (error) {
      return { ok: false, final: false, error: networkError(error) };
    }
    if (response.ok) return parseResponse(text);
    const { status } = response;
    const error = `HTTP ${status}: ${text.slice(0, 300)}`;
    if (status === 400 && isContextOverflow(text)) return { ok: true, turn: { action: silence, end: "context" } };
    const passing = status === 408 || status === 429 || status >= 500;
    const retryAfterMs = retryAfter(response.headers.get("retry-after"));
    return { ok: false, final: !passing, error, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  }

  #failure(got: string, tries: number): AgentRLError {
    return new AgentRLError("PIPELINE", "The endpoint gives no turn", {
      where: this.name,
      got,
      expected: `a chat completion within ${tries} ${tries === 1 ? "try" : "tries"}`,
      hint: "check the address, the model's name and the API key; an evaluation with --out goes on with --resume",
    });
  }
}

type Answer = { ok: true; turn: Turn } | { ok: false; final: boolean; error: string; retryAfterMs?: number };

const silence: Action = { text: "", calls: [] };

function parseResponse(text: string): Answer {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { ok: false, final: false, error: `not JSON: ${text.slice(0, 300)}` };
  }
  const parsed = responseSchema.safeParse(value);
  if (!parsed.success) return { ok: false, final: false, error: `no chat completion: ${text.slice(0, 300)}` };
  const { message, finish_reason, logprobs } = parsed.data.choices[0]!;
  const calls = (message.tool_calls ?? []).map((call, at) =>
    toCall(call.id, call.function.name, call.function.arguments, at),
  );
  // Answers go back by id: two calls with one id could not be told apart.
  const taken = new Set<string>();
  for (const call of calls) {
    if (taken.has(call.id)) call.id = `${call.id}_${taken.size}`;
    taken.add(call.id);
  }
  return {
    ok: true,
    turn: {
      action: { text: message.content ?? "", calls },
      end: finish_reason === "length" ? "length" : "stop",
      ...(logprobs?.content && { tokens: logprobs.content }),
    },
  };
}

/** Arguments that are no JSON object stay the text they are: the environment refuses them in words. */
function toCall(id: string | null | undefined, name: string, written: unknown, at: number): ToolCall {
  let args = written;
  if (typeof written === "string") {
    try {
      // A call without parameters is often written as nothing at all.
      args = written.trim() === "" ? {} : JSON.parse(written);
    } catch {
      args = written;
    }
  }
  if (typeof args !== "object" || args === null || Array.isArray(args)) {
    args = typeof written === "string" ? written : (JSON.stringify(written) ?? "");
  }
  return { id: id || `call_${at}`, name, arguments: args as Record<string, unknown> };
}

/** A message as the OpenAI API writes it. */
export function toWire({ role, content, toolCalls, toolCallId, name }: Message): Record<string, unknown> {
  return {
    role,
    content,
    ...(toolCalls !== undefined &&
      toolCalls.length > 0 && {
        tool_calls: toolCalls.map((call) => ({
          id: call.id,
          type: "function",
          function: {
            name: call.name,
            arguments: typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments),
          },
        })),
      }),
    ...(toolCallId !== undefined && { tool_call_id: toolCallId }),
    ...(name !== undefined && { name }),
  };
}

/** Milliseconds of a `Retry-After`: seconds, or a date (RFC 9110, 10.2.3). */
export function retryAfter(header: string | null, now = Date.now()): number | undefined {
  if (header === null) return undefined;
  const value = header.trim();
  const ms = /^\d+(\.\d+)?$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

function isContextOverflow(text: string): boolean {
  return /context_length_exceeded|context length|context window|maximum context|exceed_context_size/i.test(text);
}

function networkError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return `${error.name === "TimeoutError" ? "no answer in time" : error.message}${cause}`;
}
