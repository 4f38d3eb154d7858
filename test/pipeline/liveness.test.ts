import { describe, expect, it } from "vitest";
import { Liveness } from "../../src/pipeline/liveness.ts";

const pulse = (progress: number) => ({ type: "pulse", progress, doing: "waits for 2 for kg" }) as const;

describe("Liveness", () => {
  it("finds a process hung that has work and does not move, though its event loop turns", () => {
    const liveness = new Liveness(5_000);
    liveness.pulse(pulse(1));
    for (let second = 1; second <= 4; second++) {
      liveness.pulse(pulse(1));
      expect(liveness.tick(1_000, true)).toBe(false);
    }
    expect(liveness.tick(1_000, true)).toBe(true);
    expect(liveness.describe("rollout 0")).toBe(
      "rollout 0 has not moved for 5 s; it last said that it waits for 2 for kg",
    );
    liveness.pulse(pulse(2));
    expect(liveness.tick(1_000, true)).toBe(false);
  });

  it("lets one without work rest, but not fall silent", () => {
    const liveness = new Liveness(5_000);
    for (let second = 0; second < 20; second++) {
      liveness.pulse(pulse(1));
      expect(liveness.tick(1_000, false)).toBe(false);
    }
    const silent = [1, 2, 3, 4].map(() => liveness.tick(1_000, false));
    expect(silent).toEqual([false, false, false, true]);
  });
});
