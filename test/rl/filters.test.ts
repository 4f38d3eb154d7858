import { describe, expect, it } from "vitest";
import { isOverlong, selectTrained } from "../../src/rl/filters.ts";
import { trajectory } from "./trajectories.ts";

const [won, lost, equal] = [0, 1, 2].map((sample) => trajectory({ mask: [0, 1, 1], sample }));
const advantages = new Map([
  [won!, Float32Array.of(0, 1, 1)],
  [lost!, Float32Array.of(0, 0, -1)],
  [equal!, new Float32Array(3)],
]);
const all = [won!, lost!, equal!];

describe("the trajectories that carry loss, and those that count in its mean", () => {
  it("leave out what has no signal, or count it as GRPO does", () => {
    const drop = selectTrained(all, advantages, { trainsSilent: false, zeroVariance: "drop" });
    expect(drop).toEqual({ active: [won, lost], counted: [won, lost] });
    const keep = selectTrained(all, advantages, { trainsSilent: false, zeroVariance: "keep" });
    expect(keep).toEqual({ active: [won, lost], counted: all });
  });

  it("are all of them where a penalty gives each a gradient", () => {
    expect(selectTrained(all, advantages, { trainsSilent: true, zeroVariance: "drop" })).toEqual({
      active: all,
      counted: all,
    });
  });
});

it.each([
  ["length limit", true],
  ["context limit", true],
  ["turn limit", false],
  ["invalid action", false],
  ["completed", false],
] as const)("an episode that ended by %s is overlong: %s", (endReason, expected) => {
  expect(isOverlong({ endReason })).toBe(expected);
});
