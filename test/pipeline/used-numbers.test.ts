import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromRanges } from "../../src/pipeline/messages.ts";
import { UsedNumbers } from "../../src/pipeline/used-numbers.ts";

describe("UsedNumbers", () => {
  it("is the set of what was added, in whatever order, and of what it was made from", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(60)), fc.array(fc.nat(60)), fc.nat(70), (first, more, from) => {
        const before = new UsedNumbers();
        for (const number of first) before.add(number);
        const used = new UsedNumbers(before.ranges());
        for (const number of more) used.add(number);
        const all = new Set([...first, ...more]);
        const ascending = [...all].sort((a, b) => a - b);
        expect([...used]).toEqual(ascending);
        expect(fromRanges(used.ranges())).toEqual(ascending);
        expect(used.size).toBe(all.size);
        for (let number = 0; number < 64; number++) expect(used.has(number)).toBe(all.has(number));
        let next = from;
        while (all.has(next)) next++;
        expect(used.nextUnused(from)).toBe(next);
      }),
    );
  });
});
