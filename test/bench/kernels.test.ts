import { expect, it } from "vitest";
import { benchEncoding } from "../../src/bench/encoding.ts";
import { kernelShapes } from "../../src/bench/kernel-cases.ts";
import { benchKernels } from "../../src/bench/kernels.ts";
import { onEveryAdapter } from "../device/webgpu/adapters.ts";

const small = { ...kernelShapes.tiny, rows: 64, context: 64, dim: 32, inner: 64, headDim: 8, vocab: 600 };

onEveryAdapter("bench kernels", (device, adapter) => {
  it("puts each case's time beside the least that the roofline allows", async () => {
    const lines: string[] = [];
    const report = await benchKernels({
      adapter,
      shapes: [small],
      operators: ["add", "rope"],
      seconds: 0.01,
      print: (line) => lines.push(line),
    });
    expect(report.roofline.bandwidth).toBeGreaterThan(0);
    expect(report.results.map((result) => result.operator)).toEqual(["rope", "add"]);
    for (const { nanoseconds, gflops, bandwidth, share, bound, dispatches } of report.results) {
      expect(dispatches).toBe(1);
      const { roofline } = report;
      const least = bound === "memory" ? bandwidth / roofline.bandwidth : gflops / roofline.gflops;
      expect(share).toBeCloseTo(least, 9);
      expect(nanoseconds).toBeGreaterThan(0);
    }
    // 64 x 32 elements, three operands of 4 bytes.
    const add = report.results[1]!;
    expect(add.bandwidth * add.nanoseconds).toBeCloseTo(64 * 32 * 3 * 4, 3);
    expect(lines).toHaveLength(3 + report.results.length);
  });

  it("a training step makes no buffer and no bind group after the second", async () => {
    const report = await benchEncoding(device(), small, { steps: 5, rows: 32 });
    expect(report).toMatchObject({ newBuffers: 0, newBindGroups: 0 });
    expect(report.dispatches).toBeGreaterThan(100);
  });
});
