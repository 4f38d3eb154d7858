/** Cutting laws of answers, queues of requests, and messages on their way to the template. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { loadPolicyText } from "../../src/pipeline/policy-text.ts";
import { Answer, type Delta } from "../../src/serve/answer.ts";
import { toMessages } from "../../src/serve/messages.ts";
import { Places } from "../../src/serve/places.ts";
import { StopStrings } from "../../src/serve/stop-strings.ts";
import { tiny } from "./support.ts";

const { dialect } = loadPolicyText(tiny);
const { tokenizer, template } = dialect;

const fragment = fc.constantFrom(
  ...[
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    '{"name": "f", "arguments": {"x": 1}}',
    "\n",
    "é漢🙂",
    " a b ",
  ],
  ...['<tool_call>{"name": "g", "arguments": {}}</tool_call>', "<tool", "{", "Yes.", "\ufffd"],
);
const turns = fc.array(fragment, { maxLength: 12 }).map((parts) => parts.join(""));

function read(answer: Answer, ids: ArrayLike<number>) {
  const deltas: Delta[] = [];
  for (const id of Array.from(ids)) {
    if (answer.ended) break;
    deltas.push(answer.push(id));
  }
  const last = answer.end();
  // Calls come at the end, when it is clear that they count.
  expect(deltas.every(({ calls }) => calls === undefined)).toBe(true);
  return {
    thinking: [...deltas, last].map(({ thinking = "" }) => thinking).join(""),
    text: [...deltas, last].map(({ text = "" }) => text).join(""),
    calls: last.calls ?? [],
  };
}

describe("Answer", () => {
  it("put together is what training reads in the whole turn", () => {
    fc.assert(
      fc.property(turns, (turn) => {
        const ids = tokenizer.encodeText(turn);
        const { text, calls, thinking = "" } = template.parseTurn(tokenizer.decode(ids), []).action;
        expect(read(new Answer({ dialect, tools: [], readCalls: true }), ids)).toEqual({ thinking, text, calls });
      }),
      { numRuns: 400 },
    );
  });

  it("ends at the earliest stop string, wherever the tokens' borders are", () => {
    fc.assert(
      fc.property(
        turns,
        fc.array(fc.constantFrom("a", "b ", "</think>", '"x"', "🙂", "Yes.\n"), { maxLength: 3 }),
        (turn, stop) => {
          const decoded = tokenizer.decode(tokenizer.encodeText(turn));
          const places = stop.map((one) => decoded.indexOf(one)).filter((at) => at >= 0);
          const cut = decoded.slice(0, Math.min(decoded.length, ...places));
          const { text, calls, thinking = "" } = template.parseTurn(cut, []).action;
          const answer = new Answer({ dialect, tools: [], readCalls: true, stop });
          expect(read(answer, tokenizer.encodeText(turn))).toEqual({ thinking, text, calls });
          expect(answer.ended).toBe(places.length > 0);
        },
      ),
      { numRuns: 400 },
    );
  });

  it("without tools is all text but the thinking", () => {
    const ids = tokenizer.encodeText('<think>\nhm\n</think>\n\n<tool_call>{"name": "f", "arguments": {}}</tool_call>');
    expect(read(new Answer({ dialect, tools: [], readCalls: false }), ids)).toEqual({
      thinking: "hm",
      text: '<tool_call>{"name": "f", "arguments": {}}</tool_call>',
      calls: [],
    });
  });

  it("ends with its end token, which says nothing", () => {
    const answer = new Answer({ dialect, tools: [], readCalls: true });
    expect(answer.push(template.endOfTurn.id)).toEqual({});
    expect(answer.ended).toBe(true);
    expect(answer.end()).toEqual({});
  });
});

describe("StopStrings", () => {
  it("holds back no more than what may become one", () => {
    const stops = new StopStrings(["END", "E!"]);
    expect([stops.push("aE"), stops.push("N"), stops.push("x"), stops.push("E"), stops.push("!b")]).toEqual([
      ...["a", "", "ENx", "", ""],
    ]);
    expect([stops.found, stops.push("c"), stops.end()]).toEqual([true, "", ""]);
  });
});

describe("Places", () => {
  const never = new AbortController().signal;

  it("are lent in the order asked for: a large request is not passed by small ones", async () => {
    const places = new Places(2, 3);
    const order: string[] = [];
    await places.take(1, never);
    const large = places.take(2, never).then(() => order.push("large"));
    const small = places.take(1, never).then(() => order.push("small"));
    places.release(1);
    await large;
    places.release(2);
    await small;
    expect([order, places.free, places.waiting]).toEqual([["large", "small"], 1, 0]);
  });

  it("are not kept for who has gone, and refused when too many wait", async () => {
    const places = new Places(2, 2);
    await places.take(1, never);
    const leaves = new AbortController();
    const large = places.take(2, leaves.signal);
    const small = places.take(1, never);
    await expect(places.take(1, never)).rejects.toMatchObject({ status: 503, detail: { retryAfter: 1 } });
    leaves.abort(new Error("gone"));
    await expect(large).rejects.toThrow("gone");
    await small;
    expect([places.free, places.waiting]).toEqual([0, 0]);
    await expect(places.take(1, leaves.signal)).rejects.toThrow("gone");
  });
});

describe("messages", () => {
  it("become what training gives the template: calls numbered in their turn, answers with their tool's name", () => {
    const call = (id: string, name: string, args: string) => ({ id, function: { name, arguments: args } });
    expect(
      toMessages([
        { role: "developer", content: "Be brief." },
        {
          role: "user",
          content: [
            { type: "text", text: "a" },
            { type: "text", text: "b" },
          ],
        },
        {
          role: "assistant",
          content: null,
          reasoning_content: "hm",
          tool_calls: [call("x", "f", '{"k":1}'), call("y", "g", "[")],
        },
        { role: "tool", tool_call_id: "y", content: "no JSON" },
        { role: "tool", tool_call_id: "x", content: "1" },
        { role: "assistant", tool_calls: [call("x", "h", "")] },
        { role: "tool", tool_call_id: "x", content: "2" },
      ]),
    ).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "a\nb" },
      {
        role: "assistant",
        content: "",
        thinking: "hm",
        toolCalls: [
          { id: "0", name: "f", arguments: { k: 1 } },
          { id: "1", name: "g", arguments: "[" },
        ],
      },
      { role: "tool", content: "no JSON", toolCallId: "1", name: "g" },
      { role: "tool", content: "1", toolCallId: "0", name: "f" },
      { role: "assistant", content: "", toolCalls: [{ id: "0", name: "h", arguments: {} }] },
      { role: "tool", content: "2", toolCallId: "0", name: "h" },
    ]);
  });
});
