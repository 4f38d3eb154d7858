import fc from "fast-check";
import { expect, it } from "vitest";
import { shareQuotas } from "../../src/pipeline/min-share.ts";

it("by hand: whole groups at every step, halves by turns", () => {
  expect(shareQuotas([0.25, 0.5], 8, 3)).toEqual([2, 4]);
  expect(shareQuotas([0.3, 0], 10, 7)).toEqual([3, 0]);
  // A half of a group each, of batches of one: never both at a step.
  const halves = [0, 1, 2, 3].map((step) => shareQuotas([0.5, 0.5], 1, step));
  expect(halves).toEqual([
    [0, 1],
    [1, 0],
    [0, 1],
    [1, 0],
  ]);
});

it("a share is rounded down or up, all of them fit the batch, and a task alone gets its share over the steps", () => {
  const shares = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 5 }).map((parts) => {
    const sum = parts.reduce((a, b) => a + b, 0);
    return sum > 1 ? parts.map((part) => part / sum) : parts;
  });
  fc.assert(
    fc.property(shares, fc.integer({ min: 1, max: 12 }), fc.nat(500), (chosen, size, step) => {
      const quotas = shareQuotas(chosen, size, step);
      expect(quotas.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(size);
      for (const [i, quota] of quotas.entries()) {
        expect(quota).toBeGreaterThan(chosen[i]! * size - 1);
        expect(quota).toBeLessThan(chosen[i]! * size + 1);
      }
      const alone = Array.from({ length: step }, (_, s) => shareQuotas([chosen[0]!, 0], size, s)[0]!);
      expect(Math.abs(alone.reduce((a, b) => a + b, 0) - step * chosen[0]! * size)).toBeLessThan(1 + 1e-6 * step);
    }),
  );
});
