import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentRLError } from "../../src/errors.ts";
import { MetricsSink, readMetrics } from "../../src/observe/metrics.ts";

let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "agentrl-metrics-"));
  file = join(folder, "metrics.jsonl");
});
afterEach(() => rmSync(folder, { recursive: true }));

function failure(work: () => void): AgentRLError {
  try {
    work();
  } catch (error) {
    if (error instanceof AgentRLError) return error;
    throw error;
  }
  throw new Error("nothing failed");
}

/** Writes ever more steps until the disk refuses; the error, and how many were accepted. */
function fill(sink: MetricsSink): { error: AgentRLError; accepted: number } {
  let accepted = 0;
  const error = failure(() => {
    for (;;) {
      sink.write({ step: accepted, text: "x".repeat(700) });
      accepted++;
    }
  });
  return { error, accepted };
}

describe("the metrics file", () => {
  it("holds a whole line as soon as write returns", () => {
    const sink = new MetricsSink(file);
    sink.write({ step: 1, loss: 0.5 });
    expect(readFileSync(file, "utf8")).toBe('{"step":1,"loss":0.5}\n');
    sink.write({ step: 2, loss: Number.NaN, ratio: Number.POSITIVE_INFINITY });
    expect(readFileSync(file, "utf8").split("\n")[1]).toBe('{"step":2,"loss":"NaN","ratio":"Infinity"}');
    sink.close();
    sink.close();
    expect(() => sink.write({ step: 3 })).toThrow("closed");
  });

  it("is appended to by a resumed run; the later of two lines for a step counts", () => {
    for (const run of [1, 2]) {
      const sink = new MetricsSink(file);
      for (const step of [run, run + 1]) sink.write({ step, run });
      sink.close();
    }
    expect(readMetrics(file)).toEqual([
      { step: 1, run: 1 },
      { step: 2, run: 2 },
      { step: 3, run: 2 },
    ]);
    expect(readFileSync(file, "utf8").split("\n")).toHaveLength(5);
  });

  it("cut anywhere by a crash loses the torn line only, and goes on", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 6000 }), { minLength: 1, maxLength: 4 }), fc.nat(), (texts, cut) => {
        rmSync(file, { force: true });
        const sink = new MetricsSink(file);
        const ends = [0];
        for (const [step, text] of texts.entries()) {
          sink.write({ step, text });
          ends.push(statSync(file).size);
        }
        sink.close();
        const size = cut % (ends.at(-1)! + 1);
        truncateSync(file, size);
        const whole = ends.filter((end) => end <= size).length - 1;
        expect(readMetrics(file)).toHaveLength(whole);
        const resumed = new MetricsSink(file);
        resumed.write({ step: 99 });
        resumed.close();
        expect(readMetrics<{ step: number }>(file).map(({ step }) => step)).toEqual([
          ...[...texts.keys()].slice(0, whole),
          99,
        ]);
      }),
      { numRuns: 50 },
    );
  });

  it("names the line that is not JSON", () => {
    writeFileSync(file, '{"step":1}\n');
    appendFileSync(file, "oops\n");
    expect(failure(() => readMetrics(file)).detail.where).toBe(`${file}:2`);
  });

  it("in a folder that is not there is refused at once", () => {
    const error = failure(() => new MetricsSink(join(folder, "no", "metrics.jsonl")));
    expect(error.code).toBe("DISK");
    expect(error.detail.where).toBe(join(folder, "no", "metrics.jsonl"));
  });
});

describe("a full disk", () => {
  it.runIf(existsSync("/dev/full"))("(/dev/full) stops the run with an error that says what to do", () => {
    const error = failure(() => new MetricsSink("/dev/full").write({ step: 1 }));
    expect(error.code).toBe("DISK");
    expect(error.message).toContain("no space is left");
    expect(error.detail.where).toBe("/dev/full");
    expect(error.detail.hint).toContain("--resume");
  });

  it("(a tmpfs of 64 KiB) leaves whole lines only", ({ skip }) => {
    const mount = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]);
    if (mount.status !== 0) {
      console.log("skipped: mounting a tmpfs needs root on Linux");
      skip();
    }
    try {
      const sink = new MetricsSink(file);
      const { error, accepted } = fill(sink);
      sink.close();
      expect(error.code).toBe("DISK");
      expect((error.cause as NodeJS.ErrnoException).code).toBe("ENOSPC");
      expect(accepted).toBeGreaterThan(50);
      expect(readMetrics(file)).toHaveLength(accepted);
      expect(readFileSync(file, "utf8").endsWith("}\n")).toBe(true);
    } finally {
      spawnSync("umount", [folder]);
    }
  });

  it("(a file size limit, ulimit -f) does so for a process without rights", ({ skip }) => {
    if (process.platform === "win32") skip();
    const metrics = fileURLToPath(new URL("../../src/observe/metrics.ts", import.meta.url));
    const program = `
      import { MetricsSink } from ${JSON.stringify(metrics)};
      const sink = new MetricsSink(${JSON.stringify(file)});
      let accepted = 0;
      try {
        for (;;) { sink.write({ step: accepted, text: "x".repeat(700) }); accepted++; }
      } catch (error) {
        console.log(JSON.stringify({ accepted, code: error.code, cause: error.cause.code }));
      }`;
    // 32 blocks of 1 KiB (bash) or 512 bytes (sh).
    const child = spawnSync(
      "bash",
      ["-c", 'ulimit -f 32; exec "$0" "$@"', process.execPath, "--import", "tsx", "--input-type=module", "-e", program],
      {
        encoding: "utf8",
        env: { ...process.env, TSX_DISABLE_CACHE: "1" },
      },
    );
    expect(child.stderr).toBe("");
    const { accepted, code, cause } = JSON.parse(child.stdout) as { accepted: number; code: string; cause: string };
    expect({ code, cause }).toEqual({ code: "DISK", cause: "EFBIG" });
    expect(accepted).toBeGreaterThan(10);
    expect(readMetrics(file)).toHaveLength(accepted);
  });
});
