import { describe, expect, it } from "vitest";
import { comparableTokens, VersionChecksums } from "../../src/rl/staleness.ts";
import { noVersion, PolicyId } from "../../src/rl/trajectory.ts";
import { trajectory } from "./trajectories.ts";

function checksums(values: Record<number, string>): VersionChecksums {
  const versions = new VersionChecksums();
  for (const [version, checksum] of Object.entries(values)) versions.set(Number(version), checksum);
  return versions;
}

/** Offsets of the tokens, by the weights they are compared under. */
function compared(...args: Parameters<typeof comparableTokens>): Record<string, number[]> {
  const offsets = (mask: Uint8Array) => [...mask.keys()].filter((i) => mask[i] === 1);
  return Object.fromEntries([...comparableTokens(...args)].map(([id, mask]) => [id, offsets(mask)]));
}

describe("the tokens that compare", () => {
  const mixed = trajectory({ mask: [0, 0, 1, 1, 0, 1], version: [3, 3, 3, 3, 4, 4], oldest: [3, 3, 3, 3, 3, 3] });

  it("end where a token's context is of another version", () => {
    expect(compared(mixed, checksums({ 3: "a", 4: "b" }))).toEqual({ 3: [2, 3] });
  });

  it("are all of them at learning rate 0: versions of equal checksum are one", () => {
    expect(compared(mixed, checksums({ 3: "a", 4: "a" }))).toEqual({ 3: [2, 3, 5] });
  });

  it("need every version in between to be the same", () => {
    const jump = trajectory({ mask: [0, 1], version: [1, 3], oldest: [1, 1] });
    expect(compared(jump, checksums({ 1: "a", 2: "b", 3: "a" }))).toEqual({});
    expect(compared(jump, checksums({ 1: "a", 3: "a" }))).toEqual({});
  });

  it("are found in each policy's own turns, whoever spoke between them", () => {
    const { current, stale, external, checkpoint } = PolicyId;
    const one = trajectory({
      mask: [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1],
      // current at 7, a stale copy at 4, a checkpoint, an endpoint; then the current one after an update.
      version: [7, 7, 4, 4, noVersion, noVersion, noVersion, noVersion, 8, 7, 8],
      oldest: [7, 7, 4, 4, noVersion, noVersion, noVersion, noVersion, 7, 7, 7],
    });
    one.policy.set([current, current, 0, stale, 0, checkpoint, 0, external, 0, current, current]);
    one.turns = ["current", "old", "base", "far", "current"].map((policy, turn) => ({
      start: 2 * turn + 1,
      end: turn === 4 ? 11 : 2 * turn + 2,
      reward: 0,
      parseFailure: false,
      policy,
    }));
    expect(compared(one, checksums({ 4: "a", 7: "b", 8: "c" }))).toEqual({ 7: [1, 9], 4: [3], base: [5] });
  });
});
