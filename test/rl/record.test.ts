import fc from "fast-check";
import { Packr } from "msgpackr";
import { describe, expect, it } from "vitest";
import { decodeTrajectory, encodeTrajectory } from "../../src/rl/record.ts";
import { trajectory } from "./trajectories.ts";

describe("ring records", () => {
  it("carry a trajectory unchanged, bit for bit", () => {
    const mask = fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(mask, fc.nat(1e6), (values, group) => {
        const one = trajectory({ mask: values, group, vocab: 2 ** 32 });
        expect(decodeTrajectory(encodeTrajectory(one))).toEqual(one);
      }),
    );
  });

  it("are refused when the arrays differ in length", () => {
    const packr = new Packr({ useRecords: false });
    const record = packr.unpack(encodeTrajectory(trajectory({ mask: [0, 1, 1] })));
    record.sampled = Buffer.from([0, 1]);
    expect(() => decodeTrajectory(packr.pack(record))).toThrow(/got: +2 elements of sampled[\s\S]*expected: 3/);
  });
});
