import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentRLError } from "../../src/errors.ts";
import { MetricsSink, readMetrics } from "../../src/observe/metrics.ts";
import { PatientMetrics } from "../../src/observe/patient-metrics.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-test-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("metrics that wait for room", () => {
  it("are written in order once there is some, and both is said once", ({ skip }) => {
    if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]).status !== 0) {
      console.log("skipped: mounting a tmpfs needs root on Linux");
      skip();
    }
    try {
      const file = join(folder, "metrics.jsonl");
      const notices: string[] = [];
      const metrics = new PatientMetrics(new MetricsSink(file), (message) => notices.push(message));
      metrics.write({ step: 1 });
      spawnSync("dd", ["if=/dev/zero", `of=${join(folder, "filler")}`, "bs=4k"]);
      // Longer than what is left of the file's last page.
      for (const step of [2, 3, 4]) metrics.write({ step, text: "x".repeat(5000) });
      expect(metrics.drain()?.code).toBe("DISK");
      expect(readMetrics(file)).toEqual([{ step: 1 }]);
      expect(notices).toEqual([
        expect.stringMatching(/^metrics wait in memory for room on the disk: .*metrics\.jsonl: .*ENOSPC/),
      ]);
      rmSync(join(folder, "filler"));
      metrics.write({ step: 5 });
      expect(metrics.drain()).toBeNull();
      expect(readMetrics<{ step: number }>(file).map(({ step }) => step)).toEqual([1, 2, 3, 4, 5]);
      expect(notices.slice(1)).toEqual(["3 lines of metrics that waited for room on the disk are written"]);
      metrics.close();
    } finally {
      spawnSync("umount", [folder]);
    }
  });

  it.runIf(existsSync("/dev/full"))("(/dev/full) do not fill the memory: beyond 16 MiB it is an error", () => {
    const metrics = new PatientMetrics(new MetricsSink("/dev/full"), () => {});
    const text = "x".repeat(6 << 20);
    metrics.write({ step: 1, text });
    metrics.write({ step: 2, text });
    expect(() => metrics.write({ step: 3, text })).toThrow(AgentRLError);
    metrics.close();
  });
});
