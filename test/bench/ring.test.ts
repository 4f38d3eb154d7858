import { expect, it } from "vitest";
import { benchRing } from "../../src/bench/ring.ts";

it("measures the ring between processes beside memcpy, both ways of reading", async () => {
  const lines: string[] = [];
  const report = await benchRing({
    producers: 2,
    consumers: 1,
    seconds: 0.05,
    sizes: [64, 64 << 10],
    print: (line) => lines.push(line),
  });
  expect(
    report.results.map(({ producers, consumers, bytes, inPlace }) => [producers, consumers, bytes, inPlace]),
  ).toEqual([
    [2, 1, 64, true],
    [2, 1, 64, false],
    [2, 1, 64 << 10, true],
    [2, 1, 64 << 10, false],
  ]);
  for (const result of report.results) {
    expect(result.recordsPerSecond).toBeGreaterThan(10);
    expect(result.bytesPerSecond).toBe(result.recordsPerSecond * result.bytes);
    expect(result.memcpyBytesPerSecond).toBeGreaterThan(1e8);
    expect(result.ratio).toBe(result.bytesPerSecond / result.memcpyBytesPerSecond);
  }
  expect(lines).toHaveLength(2 + report.results.length);
});
