import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { MatmulLayout } from "../../../src/device/device.ts";
import { type StridedMatmul, stridedMatmul } from "../../../src/device/webgpu/ops/matmul.ts";
import { matmulVariants, usable, variantNames } from "../../../src/device/webgpu/ops/matmul-variants.ts";
import { chooseVariant, tune } from "../../../src/device/webgpu/tuning.ts";
import { expectSameBits, randomF32, upload } from "../../conformance/support.ts";
import { onEveryAdapter } from "./adapters.ts";

const layouts: MatmulLayout[] = ["nn", "nt", "tn"];
const size = fc.oneof(
  fc.constantFrom(1, 3, 4, 5, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129),
  fc.integer({ min: 1, max: 150 }),
);

onEveryAdapter("matmul variants", (device) => {
  it("give the same bits, whatever the layout, strides, offsets, bias and edge", async () => {
    const cases = fc.record({
      layout: fc.constantFrom(...layouts),
      m: size,
      n: size,
      k: fc.oneof(fc.constantFrom(1, 4, 15, 16, 17, 32, 33), fc.integer({ min: 1, max: 90 })),
      pad: fc.constantFrom(0, 0, 4, 5),
      offset: fc.constantFrom(0, 0, 4, 3),
      bias: fc.boolean(),
      accumulate: fc.boolean(),
      seed: fc.nat(),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ layout, m, n, k, pad, offset, bias, accumulate, seed }) => {
        const { gpu } = device();
        const mark = gpu.mark();
        const lda = (layout === "tn" ? m : k) + pad;
        const ldb = (layout === "nt" ? k : n) + pad;
        const ldc = n + pad;
        const data = {
          a: randomF32(offset + lda * (layout === "tn" ? k : m), seed),
          b: randomF32(offset + ldb * (layout === "nt" ? n : k), seed + 1),
          bias: randomF32(n, seed + 2),
          out: randomF32(offset + ldc * m, seed + 3),
        };
        const [a, b] = [upload(device(), data.a), upload(device(), data.b)] as never[];
        let first: Float32Array | undefined;
        for (const name of variantNames) {
          const variant = matmulVariants[name];
          if (!usable(gpu, variant)) continue;
          const out = upload(device(), data.out) as never;
          const product: StridedMatmul = { layout, a: a!, b: b!, out, m, n, k, lda, ldb, ldc, accumulate };
          const placed = { ...product, aOffset: offset, bOffset: offset, outOffset: offset };
          stridedMatmul(gpu, bias ? { ...placed, bias: upload(device(), data.bias) as never } : placed, variant);
          const got = await device().readF32(out);
          if (first === undefined) first = got;
          else expectSameBits(got, first, `${name} beside ${variantNames[0]}`);
        }
        gpu.freeSince(mark);
      }),
      { numRuns: 2 },
    );
  });

  it("are measured once for each size, and the choice is read from disk by the next process", async () => {
    const folder = mkdtempSync(join(tmpdir(), "agentrl-tuning-"));
    const before = { cache: process.env.XDG_CACHE_HOME, tune: process.env.AGENTRL_TUNE };
    Object.assign(process.env, { XDG_CACHE_HOME: folder, AGENTRL_TUNE: "1" });
    try {
      const { gpu } = device();
      const shape = { layout: "nn", m: 40, n: 96, k: 32 } as const;
      await tune(gpu, [shape]);
      const [file] = readdirSync(join(folder, "agentrl"));
      const path = join(folder, "agentrl", file!);
      const kept = JSON.parse(readFileSync(path, "utf8")) as Record<string, string>;
      expect(Object.keys(kept)).toEqual(["nn 64x128x32"]);
      expect(chooseVariant(gpu, shape)).toBe(matmulVariants[kept["nn 64x128x32"] as keyof typeof matmulVariants]);

      writeFileSync(path, JSON.stringify({ "nt 64x128x32": "workgroup 64" }));
      const dispatches = gpu.recorder.dispatches;
      await tune(gpu, [{ ...shape, layout: "nt" }]);
      expect(gpu.recorder.dispatches).toBe(dispatches);
      expect(chooseVariant(gpu, { ...shape, layout: "nt" })).toBe(matmulVariants["workgroup 64"]);
    } finally {
      for (const [name, value] of [
        ["XDG_CACHE_HOME", before.cache],
        ["AGENTRL_TUNE", before.tune],
      ] as const) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
