import { describe, expect, it } from "vitest";
import { comparableTokens, contextVersion, VersionChecksums } from "../../src/rl/staleness.ts";
import { trajectory } from "./trajectories.ts";

function checksums(values: Record<number, string>): VersionChecksums {
  const versions = new VersionChecksums();
  for (const [version, checksum] of Object.entries(values)) versions.set(Number(version), checksum);
  return versions;
}

describe("comparableTokens", () => {
  const mixed = trajectory({ mask: [0, 0, 1, 1, 0, 1], version: [3, 3, 3, 3, 4, 4], oldest: [3, 3, 3, 3, 3, 3] });

  it("stops at the first token whose context is of another version", () => {
    expect(comparableTokens(mixed, checksums({ 3: "a", 4: "b" }))).toBe(2);
    expect(contextVersion(mixed)).toBe(3);
  });

  it("takes versions of equal checksum for one, so learning rate 0 compares every token", () => {
    expect(comparableTokens(mixed, checksums({ 3: "a", 4: "a" }))).toBe(3);
  });

  it("needs every version in between to be the same", () => {
    const jump = trajectory({ mask: [0, 1], version: [1, 3], oldest: [1, 1] });
    expect(comparableTokens(jump, checksums({ 1: "a", 2: "b", 3: "a" }))).toBe(0);
    expect(comparableTokens(jump, checksums({ 1: "a", 3: "a" }))).toBe(0);
  });
});
