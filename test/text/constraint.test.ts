/**
 * Constrained decoding: whatever the masks allow parses and validates (ajv decides), and every valid call is allowed,
 * however its bytes are cut into tokens.
 */
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { argumentsSchema } from "../../src/env/define.ts";
import type { ToolSpec } from "../../src/env/environment.ts";
import { ChatTemplate } from "../../src/text/chat-template.ts";
import { Constraint, type ConstraintState } from "../../src/text/constraint/constraint.ts";
import { type ToolFormatName, toolFormat } from "../../src/text/formats/index.ts";
import { parseTurn } from "../../src/text/tool-calls.ts";
import { golden, goldenTokenizer } from "./golden.ts";

const item: z.ZodObject = z.object({ name: z.string(), children: z.array(z.lazy(() => item)) });
const tools: ToolSpec[] = [
  {
    name: "search",
    description: "",
    parameters: z.object({
      query: z.string(),
      limit: z.int().min(-7).max(120).optional(),
      exact: z.boolean().nullable(),
      kind: z.enum(["a", 'b"</', "é"]).optional(),
      where: z.object({ year: z.number(), tags: z.array(z.string()).min(1).max(3) }).optional(),
    }),
  },
  { name: "fin<ish", description: "", parameters: z.object({ count: z.int(), map: z.record(z.string(), z.int()) }) },
  { name: "tree", description: "", parameters: z.object({ root: item }) },
  { name: "free", description: "", parameters: z.object({ anything: z.any() }) },
  { name: "none", description: "", parameters: z.object({}) },
];
const ajv = new Ajv2020({ strict: false });
const validators = new Map(tools.map((tool) => [tool.name, ajv.compile(argumentsSchema(tool))]));

/** Values that JSON has, with text that could be mistaken for marks. */
const text = fc
  .array(
    fc.oneof(
      fc.constantFrom("<", "</", "</tool_call>", "<tool_call>", '"', "\\", "é", "\n"),
      fc.string({ unit: "grapheme" }),
    ),
    {
      maxLength: 4,
    },
  )
  // A constraint wants `</` escaped, which only some formats do.
  .map((parts) => parts.join("").replace(/<\/+/g, "<"));
const number = fc.double({ noNaN: true, min: -1e279, max: 1e279 }).map((value) => value + 0);
const integer = fc.maxSafeInteger();
const tree = fc.letrec<{ node: unknown }>((tie) => ({
  node: fc.record({
    name: text,
    children: fc.oneof({ maxDepth: 3 }, fc.constant([]), fc.array(tie("node"), { maxLength: 2 })),
  }),
}));
const free = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    text,
    number,
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(text, tie("value"), { maxKeys: 3 }),
  ),
}));
const optional = { requiredKeys: ["query", "exact"] as ("query" | "exact")[] };
const call = fc
  .oneof(
    fc.record({
      name: fc.constant("search"),
      arguments: fc.record(
        {
          query: text,
          limit: fc.integer({ min: -7, max: 120 }),
          exact: fc.constantFrom(true, false, null),
          kind: fc.constantFrom("a", "é"),
          where: fc.record({ year: number, tags: fc.array(text, { minLength: 1, maxLength: 3 }) }),
        },
        optional,
      ),
    }),
    fc.record({
      name: fc.constant("fin<ish"),
      arguments: fc.record({ count: integer, map: fc.dictionary(text, integer) }),
    }),
    fc.record({ name: fc.constant("tree"), arguments: fc.record({ root: tree.node }) }),
    fc.record({ name: fc.constant("free"), arguments: fc.record({ anything: free.value }) }),
    fc.record({ name: fc.constant("none"), arguments: fc.record({}) }),
  )
  // Without the prototypes that fast-check leaves out.
  .map((value) => JSON.parse(JSON.stringify(value)) as { name: string; arguments: Record<string, unknown> });

function allowed(mask: Uint32Array, id: number): boolean {
  return ((mask[id >> 5]! >>> (id & 31)) & 1) === 1;
}

describe.each<["tiny" | "chatml", ToolFormatName]>([
  ["tiny", "hermes"],
  ["chatml", "hermes"],
  ["chatml", "json"],
  ["tiny", "llama3"],
])("%s, %s", (family, name) => {
  const tokenizer = goldenTokenizer(family);
  const template = new ChatTemplate(tokenizer, golden[family].template, "t", { toolFormat: name });
  const stop = template.endOfTurn.id;
  const constraint = new Constraint({ tokenizer, tools, format: name, stopTokens: [stop] });
  const listed = (mask: Uint32Array) =>
    Array.from({ length: tokenizer.vocabSize }, (_, id) => id).filter((id) => allowed(mask, id));

  test("whatever is allowed parses, is valid, and never comes to an end without a way on", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { minLength: 30, maxLength: 60 }), fc.nat(), (choices, hurry) => {
        const turn: number[] = [];
        let state: ConstraintState = constraint.start();
        for (let step = 0; ; step++) {
          expect(step).toBeLessThan(3000);
          const open = listed(state.mask());
          expect(open.length).toBeGreaterThan(0);
          let id = open[(choices[step % choices.length]! + step) % open.length]!;
          // After a while: whatever closes strings, objects and lists soonest.
          if (step >= choices.length || hurry % 7 === 0) {
            const closing =
              open.find((one) => one === stop) ?? open.find((one) => /^["}\]]$/.test(tokenizer.decode([one])));
            id = closing ?? id;
          }
          if (id === stop) break;
          turn.push(id);
          state = state.advance(id);
        }
        expect(state.complete).toBe(true);
        const parsed = parseTurn(tokenizer.decode(turn), { format: toolFormat(name), tools });
        expect(parsed.parseFailure, tokenizer.decode(turn)).toBe(false);
        expect(parsed.action.calls).toHaveLength(1);
        const { name: called, arguments: args } = parsed.action.calls[0]!;
        const validate = validators.get(called)!;
        expect(validate(args), `${tokenizer.decode(turn)} ${ajv.errorsText(validate.errors)}`).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  test("every valid call is allowed, as the format writes it", () => {
    fc.assert(
      fc.property(call, (value) => {
        expect(validators.get(value.name)!(value.arguments)).toBe(true);
        const action = { text: "", calls: [{ id: "0", ...value }] };
        const ids = template.renderAssistant(action).subarray(0, -1);
        let state = constraint.start();
        for (const id of ids) {
          expect(allowed(state.mask(), id), `${tokenizer.decode(ids)} at ${tokenizer.decode([id])}`).toBe(true);
          state = state.advance(id);
        }
        expect(state.complete).toBe(true);
        expect(allowed(state.mask(), stop)).toBe(true);
      }),
      { numRuns: 100 },
    );
  });

  test("a token that is not allowed is refused; nothing comes after the end", () => {
    const state = constraint.start();
    expect(() => state.advance(stop)).toThrow(/does not allow/);
    expect(allowed(state.mask(), stop)).toBe(false);
  });
});

describe("what is refused", () => {
  const tokenizer = goldenTokenizer("tiny");
  test.each([
    [[], "hermes", /no tools/],
    [tools, "qwen3-coder", /qwen3-coder/],
  ] as const)("%#", (some, format, message) => {
    expect(() => new Constraint({ tokenizer, tools: some, format, stopTokens: [] })).toThrow(message);
  });
});

test("integers keep to their bounds, at every length", () => {
  const tokenizer = goldenTokenizer("tiny");
  fc.assert(
    fc.property(
      fc.integer({ min: -2000, max: 2000 }),
      fc.nat(1500),
      fc.integer({ min: -4000, max: 4000 }),
      (min, width, value) => {
        const tool: ToolSpec = {
          name: "f",
          description: "",
          parameters: z.object({
            n: z
              .int()
              .min(min)
              .max(min + width),
          }),
        };
        const constraint = new Constraint({ tokenizer, tools: [tool], format: "json", stopTokens: [] });
        let state: ConstraintState | undefined = constraint.start();
        for (const id of tokenizer.encodeText(`{"name":"f","arguments":{"n":${value}}}`)) {
          state = state && allowed(state.mask(), id) ? state.advance(id) : undefined;
        }
        expect(state?.complete ?? false).toBe(value >= min && value <= min + width);
      },
    ),
    { numRuns: 150 },
  );
});
