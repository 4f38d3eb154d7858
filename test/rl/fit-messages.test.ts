import { expect, it } from "vitest";
import { fitMessages } from "../../src/rl/fit-messages.ts";

const bytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

it("leaves messages that fit as they are", () => {
  const messages = [{ role: "user" as const, content: "a".repeat(100) }];
  expect(fitMessages(messages, bytes(messages))).toEqual(messages);
});

it("cuts the longest texts and says how much is missing", () => {
  const messages = [
    { role: "user" as const, content: "short" },
    { role: "tool" as const, content: "é".repeat(5000), toolCallId: "0", name: "cat" },
  ];
  const [first, second] = fitMessages(messages, 2000);
  expect(first).toEqual(messages[0]);
  expect(second).toMatchObject({ toolCallId: "0", name: "cat" });
  const [, text, missing] = /^(é+)… \((\d+) characters more\)$/.exec(second!.content)!;
  expect(text!.length + Number(missing)).toBe(5000);
  expect(bytes([first, second])).toBeLessThanOrEqual(2000);
  expect(bytes([first, second])).toBeGreaterThan(1000);
});

it("leaves the last messages out where cutting is not enough", () => {
  const messages = Array.from({ length: 50 }, (_, i) => ({
    role: "user" as const,
    content: `${i}: ${"b".repeat(40)}`,
  }));
  const fitting = fitMessages(messages, 1000);
  expect(fitting).toEqual(messages.slice(0, fitting.length));
  expect(bytes(fitting)).toBeLessThanOrEqual(1000);
  expect(bytes(messages.slice(0, fitting.length + 1))).toBeGreaterThan(1000);
});
