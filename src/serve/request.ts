/** A checked request: what to render, how to sample, what to send back. */
import { randomInt } from "node:crypto";
import { z } from "zod";
import type { Message, ToolSpec } from "../env/environment.ts";
import type { Sampling } from "../generate/sampling.ts";
import { ApiError, refused } from "./api-error.ts";
import { toMessages } from "./messages.ts";
import { type ChatRequestBody, chatRequest } from "./request-schema.ts";

export interface ChatRequest {
  model: string;
  messages: Message[];
  /** What the model is shown, and its calls are read by. */
  tools: ToolSpec[];
  sampling: Sampling;
  /** A safe integer: the same one gives the same tokens. */
  seed: number;
  /** Default: what the context leaves. */
  maxTokens?: number;
  stop: string[];
  choices: number;
  logProbs: boolean;
  tokenIds: boolean;
  stream: boolean;
  streamUsage: boolean;
}

/** @throws ApiError 400 that names the field. */
export function parseRequest(body: unknown): ChatRequest {
  const parsed = chatRequest.safeParse(withoutNulls(body));
  if (!parsed.success) throw refusalOf(parsed.error.issues[0]);
  const { data } = parsed;
  const maxTokens = maxTokensOf(data);
  if (data.stream_options !== undefined && !data.stream) {
    throw refused("stream_options", "has an effect only with stream", "invalid_value");
  }
  if (data.tool_choice === "auto" && (data.tools ?? []).length === 0) {
    throw refused("tool_choice", "there are no tools to choose from", "invalid_value");
  }
  return {
    model: data.model,
    messages: toMessages(data.messages),
    // A model that may not call is not told of tools.
    tools: data.tool_choice === "none" ? [] : toolsOf(data),
    sampling: {
      temperature: data.temperature,
      topK: Math.max(0, data.top_k),
      topP: data.top_p,
      minP: data.min_p,
    },
    seed: data.seed ?? randomInt(2 ** 47),
    ...(maxTokens !== undefined && { maxTokens }),
    stop: typeof data.stop === "string" ? [data.stop] : (data.stop ?? []),
    choices: data.n,
    logProbs: data.logprobs,
    tokenIds: data.return_token_ids,
    stream: data.stream,
    streamUsage: data.stream_options?.include_usage ?? false,
  };
}

/** Clients write null for what they leave to the server. */
function withoutNulls(body: unknown): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

function refusalOf(issue: z.core.$ZodIssue | undefined): ApiError {
  if (issue?.code === "unrecognized_keys") {
    const param = [...issue.path, issue.keys[0]!].join(".");
    return new ApiError(400, `${param}: not known here`, { param, code: "unknown_parameter" });
  }
  // Of a union the alternative that came furthest says most.
  if (issue?.code === "invalid_union") {
    const deeper = issue.errors.flat().filter(({ path }) => path.length > 0);
    if (deeper.length > 0) return refusalOf({ ...deeper[0]!, path: [...issue.path, ...deeper[0]!.path] });
  }
  const param = issue?.path.join(".") || "body";
  return refused(param, issue?.message ?? "invalid", issue?.code === "custom" ? "unsupported_value" : "invalid_value");
}

function maxTokensOf({ max_tokens, max_completion_tokens }: ChatRequestBody): number | undefined {
  if (max_tokens !== undefined && max_completion_tokens !== undefined && max_tokens !== max_completion_tokens) {
    throw refused("max_tokens", "max_completion_tokens says something else: give one of them", "invalid_value");
  }
  return max_completion_tokens ?? max_tokens;
}

function toolsOf({ tools = [] }: ChatRequestBody): ToolSpec[] {
  const names = new Set<string>();
  return tools.map(({ function: { name, description, parameters } }, at) => {
    if (names.has(name)) throw refused(`tools.${at}.function.name`, `there are two tools ${name}`, "invalid_value");
    names.add(name);
    return {
      name,
      description: description ?? "",
      // Whether a call fits its schema is for the client to judge, who carries it out.
      parameters: z.looseObject({}),
      jsonSchema: parameters ?? { type: "object", properties: {} },
    };
  });
}
