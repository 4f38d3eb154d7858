/**
 * The body of POST /v1/chat/completions. What would change the answer and cannot be done is refused by name, as is what
 * nobody here knows; what changes nothing is let through.
 */
import { z } from "zod";

/** Notes of the client to itself, or to a service with accounts. */
const ignored = [
  "user",
  "metadata",
  "store",
  "service_tier",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_retention",
];

/** Fields whose one harmless value is taken, and why no other one is. */
const only: Record<string, { harmless: (value: unknown) => boolean; why: string }> = {
  logit_bias: { harmless: (value) => isEmpty(value), why: "tokens cannot be biased here" },
  frequency_penalty: { harmless: (value) => value === 0, why: "there are no penalties here: the only value is 0" },
  presence_penalty: { harmless: (value) => value === 0, why: "there are no penalties here: the only value is 0" },
  repetition_penalty: { harmless: (value) => value === 1, why: "there are no penalties here: the only value is 1" },
  response_format: {
    harmless: (value) => isEmpty(value, ["type"]) && (value as { type?: unknown }).type === "text",
    why: "an output format cannot be enforced here: ask for it in the messages",
  },
  parallel_tool_calls: { harmless: (value) => value === true, why: "the number of calls cannot be limited here" },
  modalities: {
    harmless: (value) => Array.isArray(value) && value.every((one) => one === "text"),
    why: "the model writes text",
  },
  top_logprobs: {
    harmless: (value) => value === 0,
    why: "the engine gives the log-probability of the sampled token, not of others: ask for logprobs alone",
  },
  functions: { harmless: () => false, why: "this is the old form: use tools" },
  function_call: { harmless: () => false, why: "this is the old form: use tool_choice" },
};

// As shapes without names: nothing reads these fields.
const passed: object = Object.fromEntries(ignored.map((name) => [name, z.unknown().optional()]));
const harmless: object = Object.fromEntries(
  Object.entries(only).map(([name, { harmless, why }]) => [name, z.unknown().refine(harmless, why).optional()]),
);

function isEmpty(value: unknown, but: readonly string[] = []): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).every((key) => but.includes(key));
}

const textPart = z.strictObject({ type: z.literal("text", "only text can be read"), text: z.string() });
const content = z.union([z.string(), z.array(textPart)], {
  error: (issue) => (issue.input === undefined ? "missing" : "expected a string or a list of text parts"),
});

const said = { content, name: z.string().optional() };
const message = z.discriminatedUnion(
  "role",
  [
    z.strictObject({ role: z.literal("system"), ...said }),
    z.strictObject({ role: z.literal("developer"), ...said }),
    z.strictObject({ role: z.literal("user"), ...said }),
    z.strictObject({
      role: z.literal("assistant"),
      content: content.nullish(),
      name: z.string().optional(),
      reasoning_content: z.string().nullish(),
      refusal: z.null("refusals are not known here").optional(),
      tool_calls: z
        .array(
          z.strictObject({
            id: z.string().min(1),
            type: z.literal("function").optional(),
            index: z.int().optional(),
            function: z.strictObject({ name: z.string(), arguments: z.string() }),
          }),
        )
        .nullish(),
    }),
    z.strictObject({ role: z.literal("tool"), content, tool_call_id: z.string(), name: z.string().optional() }),
  ],
  "expected system, developer, user, assistant or tool",
);
export type WireMessage = z.output<typeof message>;

const tool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: z.string().min(1),
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.unknown()).nullish(),
    strict: z
      .unknown()
      .refine((value) => value === false || value === null, "arguments cannot be held to their schema here")
      .optional(),
  }),
});

export const chatRequest = z.strictObject({
  model: z.string(),
  messages: z.array(message).min(1),
  tools: z.array(tool).optional(),
  tool_choice: z.enum(["auto", "none"], "only auto and none: a call cannot be forced here").optional(),
  temperature: z.number().min(0).max(10).default(1),
  top_p: z.number().gt(0).max(1).default(1),
  /** 0 and -1: off. */
  top_k: z.int().min(-1).max(0xffffffff).default(0),
  min_p: z.number().min(0).max(1).default(0),
  seed: z.int().optional(),
  max_tokens: z.int().min(1).optional(),
  max_completion_tokens: z.int().min(1).optional(),
  stop: z
    .union([z.string().min(1), z.array(z.string().min(1)).max(16)], "expected up to 16 non-empty strings")
    .optional(),
  n: z.int().min(1).default(1),
  logprobs: z.boolean().default(false),
  return_token_ids: z.boolean().default(false),
  stream: z.boolean().default(false),
  stream_options: z
    .strictObject({
      include_usage: z.boolean().default(false),
      /** Padding against those who listen to lengths. There is none. */
      include_obfuscation: z.literal(false).optional(),
    })
    .optional(),
  ...harmless,
  ...passed,
});
export type ChatRequestBody = z.output<typeof chatRequest>;
