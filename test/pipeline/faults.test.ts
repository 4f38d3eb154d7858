/** What breaks around a run, for real: a full disk, killed processes, bad model files, a model too large. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { readMetrics } from "../../src/observe/metrics.ts";
import { TraceReader } from "../../src/observe/traces/reader.ts";
import { latestCheckpoint, readCheckpoint } from "../../src/pipeline/checkpoint.ts";
import { fromRanges } from "../../src/pipeline/messages.ts";
import type { RunStep } from "../../src/pipeline/train.ts";
import { Ring } from "../../src/shm/ring.ts";
import { segmentName } from "../../src/shm/segment.ts";
import { failureOf } from "../failure.ts";
import { leftAfter, segmentsOf } from "../run-processes.ts";
import { makeModel, run, runOptions, tasks, temporaryFolder } from "./tiny-run.ts";

const folder = temporaryFolder();
let model = "";
beforeAll(async () => {
  model = await makeModel(folder.path);
});
afterAll(() => folder.remove());

function settings(overrides: Record<string, unknown> = {}) {
  return {
    model: { path: model },
    steps: 6,
    tasks,
    rollout: { maxSequences: 16, groupSize: 4, groupsPerStep: 2, maxTokensPerTurn: 16, contextLimit: 320 },
    learner: { microBatchTokens: 700 },
    staleness: { maxLag: 1 },
    algorithm: { entropyBonus: 0.01 },
    checkpoint: { every: 1, keep: 3 },
    ...overrides,
  };
}

/** Processes below `pid` whose command line names `what`. */
function descendants(pid: number, what: string): number[] {
  const rows = execFileSync("ps", ["-eo", "pid=,ppid=,args="], { encoding: "utf8", maxBuffer: 64 << 20 })
    .split("\n")
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line))
    .filter((match) => match !== null)
    .map(([, id, parent, args]) => ({ id: Number(id), parent: Number(parent), args: args! }));
  return rows.filter((row) => row.parent === pid && row.args.includes(what)).map((row) => row.id);
}

describe("a full disk", () => {
  it("stops the run with its cause, and the last checkpoint is intact", async ({ skip }) => {
    const out = join(folder.path, "full-disk");
    mkdirSync(out);
    if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", out]).status !== 0) {
      console.log("skipped: mounting a tmpfs needs root on Linux");
      skip();
    }
    try {
      const options = { ...runOptions(folder.path, "full", settings({ steps: 50 })), out };
      const error = await failureOf(
        run({
          ...options,
          onEvent: (event) => {
            if (event.type === "checkpoint" && event.step === 2) {
              // `dd` ends with an error when the file system is full, which is the point.
              spawnSync("dd", ["if=/dev/zero", `of=${join(out, "filler")}`, "bs=4k"]);
            }
          },
        }),
      );
      expect(error.code).toBe("DISK");
      expect(error.message).toMatch(/no space|ENOSPC/i);
      const last = latestCheckpoint(join(out, "checkpoints"))!;
      const { state } = readCheckpoint(last);
      expect(state.step).toBeGreaterThanOrEqual(2);
      rmSync(join(out, "filler"));
      const { summary } = await run({
        ...runOptions(folder.path, "full", settings({ steps: state.step + 2 })),
        out,
        resume: true,
      });
      expect(summary.steps).toBe(state.step + 2);
    } finally {
      spawnSync("umount", [out]);
    }
  });
});

describe("a full disk with checkpoint.onError: continue", () => {
  /** A file system of its own, 4 MB; null where mounting one is not allowed. */
  function smallDisk(name: string): { out: string; fill: () => void; free: () => void; unmount: () => void } | null {
    const out = join(folder.path, name);
    mkdirSync(out);
    if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", out]).status !== 0) {
      console.log("skipped: mounting a tmpfs needs root on Linux");
      return null;
    }
    const filler = join(out, "filler");
    return {
      out,
      // `dd` ends with an error when the file system is full, which is the point.
      fill: () => spawnSync("dd", ["if=/dev/zero", `of=${filler}`, "bs=4k"]),
      free: () => rmSync(filler),
      unmount: () => spawnSync("umount", [out]),
    };
  }
  const patient = (steps: number) => settings({ steps, checkpoint: { every: 1, keep: 2, onError: "continue" } });
  const missed = /^step (\d+): the checkpoint could not be written \((.*)\); the run goes on and keeps (.*)$/;

  it("goes on, says so, keeps the previous checkpoint, and writes the next once there is room", async ({ skip }) => {
    const disk = smallDisk("patient") ?? skip();
    const { out } = disk;
    try {
      const notices: string[] = [];
      const saved: number[] = [];
      const failed: number[] = [];
      const { summary } = await run({
        ...runOptions(folder.path, "patient-run", patient(14)),
        out,
        onEvent: (event) => {
          if (event.type === "checkpoint") {
            saved.push(event.step);
            if (event.step === 2) disk.fill();
          } else if (event.type === "notice") {
            notices.push(event.message);
            const [, step, cause, kept] = missed.exec(event.message) ?? [];
            if (step === undefined) return;
            failed.push(Number(step));
            expect(cause).toMatch(/\/patient\/.*(ENOSPC|no space)/);
            expect(readCheckpoint(kept!).state.step).toBe(saved.at(-1));
            // By then lines of metrics wait as well: a few KB are more than a page of the file system.
            if (failed.length === 5) disk.free();
          }
        },
      });
      expect(failed.length).toBeGreaterThanOrEqual(5);
      expect(saved).toContain(2);
      expect(saved.at(-1)).toBe(14);
      // Between the last failure and the end there were checkpoints again.
      expect(saved.filter((step) => step > failed.at(-1)! && step < 14)).not.toEqual([]);
      expect(notices.join("\n")).toMatch(
        /metrics wait in memory.*metrics\.jsonl.*no space[\s\S]*lines of metrics .* are written/,
      );
      expect(summary.steps).toBe(14);
      const lines = readMetrics<RunStep>(join(out, "metrics.jsonl"));
      expect(lines.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
      // Traces found no room either: counted, said once, and written again when there was.
      expect(summary.faults.traceFailures).toBeGreaterThan(0);
      expect(notices.filter((notice) => notice.startsWith("traces cannot be written"))).toHaveLength(1);
      const traces = TraceReader.open(out);
      const traced = new Set(traces.summaries().map(({ step }) => step));
      expect([1, 2, 14].filter((step) => !traced.has(step))).toEqual([]);
      expect(traced.size).toBeLessThan(14);
      for (const { id, tokens } of traces.summaries()) expect(traces.read(id).tokens).toHaveLength(tokens);
    } finally {
      disk.unmount();
    }
  });

  it("ends with its cause when there is no room for the last checkpoint either, and can be resumed", async ({
    skip,
  }) => {
    const disk = smallDisk("full-to-the-end") ?? skip();
    const { out } = disk;
    try {
      const error = await failureOf(
        run({
          ...runOptions(folder.path, "full-run", patient(4)),
          out,
          onEvent: (event) => {
            if (event.type === "checkpoint" && event.step === 1) disk.fill();
          },
        }),
      );
      expect(error.code).toBe("DISK");
      expect(error.message).toMatch(/no space|ENOSPC/i);
      disk.free();
      const { summary } = await run({ ...runOptions(folder.path, "full-run", patient(5)), out, resume: true });
      expect(fromRanges(readCheckpoint(summary.checkpoint).state.trainedGroups)).toEqual([...Array(2 * 5).keys()]);
      expect(readMetrics<RunStep>(join(out, "metrics.jsonl")).map(({ step }) => step)).toEqual([1, 2, 3, 4, 5]);
    } finally {
      disk.unmount();
    }
  });
});

describe("a killed process", () => {
  it("(the learner) is started again from the last checkpoint, and every group is trained once", async () => {
    const notices: string[] = [];
    let kills = 0;
    const options = runOptions(folder.path, "learner-killed", settings({ checkpoint: { every: 2 } }));
    const { summary, steps } = await run({
      ...options,
      onEvent: (event) => {
        if (event.type === "notice") notices.push(event.message);
        // A step beyond the checkpoint: it is lost, and trained again.
        if (event.type !== "step" || event.metrics.step !== 3 || kills++ > 0) return;
        const [learner] = descendants(process.pid, "pipeline/learner.ts");
        process.kill(learner!, "SIGKILL");
      },
    });
    expect(summary.steps).toBe(6);
    expect(summary.faults.learnerRestarts).toBe(1);
    expect(notices.join("\n")).toMatch(/learner process ended[\s\S]*SIGKILL[\s\S]*goes on from .*step-000002/);
    expect(steps.map(({ step }) => step)).toEqual([1, 2, 3, 3, 4, 5, 6]);
    expect(readMetrics<RunStep>(join(options.out, "metrics.jsonl")).map(({ step }) => step)).toEqual([
      1, 2, 3, 4, 5, 6,
    ]);
    const { trainedGroups } = readCheckpoint(summary.checkpoint).state;
    expect(fromRanges(trainedGroups)).toEqual([...Array(2 * 6).keys()]);
    const traces = TraceReader.open(options.out).summaries();
    expect(traces.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6].flatMap((step) => Array(8).fill(step)));
    expect(new Set(traces.map(({ group, sample }) => `${group} ${sample}`)).size).toBe(6 * 8);
  });

  it("(the learner, whenever it starts) ends the run with its cause and its last lines", async () => {
    const out = join(folder.path, "learner-cannot-start");
    const stopped = run({
      ...runOptions(
        folder.path,
        "learner-cannot-start",
        settings({ checkpoint: { every: 10 }, recovery: { restarts: 1 } }),
      ),
      onEvent: (event) => {
        if (event.type !== "step") return;
        const [learner] = descendants(process.pid, "pipeline/learner.ts");
        process.kill(learner!, "SIGKILL");
      },
    });
    const error = await failureOf(stopped);
    expect(error.code).toBe("PIPELINE");
    expect(error.message).toMatch(/learner process keeps ending[\s\S]*SIGKILL[\s\S]*without a new step[\s\S]*--resume/);
    expect(existsSync(join(out, "metrics.jsonl"))).toBe(true);
  });

  it("(the supervisor) leaves no child behind; the next start removes its shared memory, and resumes the run", async () => {
    const out = join(folder.path, "supervisor-killed");
    const file = join(folder.path, "supervisor.yaml");
    writeFileSync(file, stringify(settings({ steps: 400 })));
    const cli = new URL("../../bin/agentrl.js", import.meta.url).pathname;
    const child: ChildProcess = spawn(process.execPath, [cli, "train", file, "--out", out], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const ended = once(child, "exit");
    await lineMatching(child, () => existsSync(join(out, "checkpoints", "latest")));
    const children = [...descendants(child.pid!, "pipeline/")];
    expect(children.length).toBe(2);
    child.kill("SIGKILL");
    await ended;
    const gone = children.map((pid) => ({ pid, role: "other" }) as const);
    expect(await leftAfter(gone, 60_000)).toEqual([]);
    const { state } = readCheckpoint(latestCheckpoint(join(out, "checkpoints"))!);
    const steps = state.step + 1;
    const segments = segmentsOf([child.pid!]);
    if (process.platform === "linux") expect(segments).toHaveLength(2);
    const living = Ring.create({ name: segmentName(`${process.pid}-living`, "ring"), capacityBytes: 4096 });
    const notices: string[] = [];
    const { summary } = await run({
      ...runOptions(folder.path, "supervisor-resumed", settings({ steps })),
      out,
      resume: true,
      onEvent: (event) => {
        if (event.type === "notice") notices.push(event.message);
      },
    });
    expect(summary.steps).toBe(steps);
    expect(segmentsOf([child.pid!])).toEqual([]);
    for (const segment of segments) expect(notices.join("\n")).toContain(segment);
    // Those of the living are left alone.
    expect(living.unlink()).toBe(true);
    living.detach();
  });
});

describe("an environment that fails", () => {
  const unwell = (of: number) => ({
    name: join(import.meta.dirname, "../fixtures/unwell.ts"),
    options: { settings: { of } },
  });
  // Room for all groups at once: a group that is tried again keeps its place.
  const wide = { rollout: { ...settings().rollout, maxSequences: 48 }, staleness: { maxLag: 2 } };

  it("in some of its tasks costs those groups: they are named, others are played, and every batch is full", async () => {
    const notices: string[] = [];
    const options = runOptions(folder.path, "unwell", settings({ ...wide, tasks: [unwell(4), { name: "kg" }] }));
    const { summary, steps } = await run({
      ...options,
      onEvent: (event) => {
        if (event.type === "notice") notices.push(event.message);
      },
    });
    expect(summary.steps).toBe(6);
    const last = steps.at(-1)!;
    expect(notices.length).toBeGreaterThanOrEqual(last.faults.abandonedGroups);
    expect(last.faults.abandonedGroups).toBeGreaterThan(0);
    for (const notice of notices) {
      expect(notice).toMatch(/^unwell, train\[\d+\] is left out: .*no way to (begin|go on)/);
    }
    for (const { tasks } of steps) {
      expect(Object.values(tasks).reduce((sum, { episodes }) => sum + episodes, 0)).toBe(2 * 4);
    }
    // Five tries for each that was given up.
    expect(last.faults.environmentFaults).toBeGreaterThanOrEqual(5 * last.faults.abandonedGroups);
    const used = fromRanges(readCheckpoint(summary.checkpoint).state.trainedGroups);
    expect(used.length).toBe(2 * 6 + notices.length);
  });

  it("in all of them ends the run with its name and what it says", async () => {
    const options = runOptions(folder.path, "broken-environment", settings({ ...wide, tasks: [unwell(1)] }));
    const error = await failureOf(run(options));
    expect(error.code).toBe("ENVIRONMENT");
    expect(error.message).toMatch(
      /Environment unwell fails: 8 more groups were given up[\s\S]*no way to begin[\s\S]*--resume/,
    );
  });
});

describe("bad input", () => {
  it("is refused by name before a process starts: a truncated weights file", async () => {
    const broken = join(folder.path, "broken");
    cpSync(model, broken, { recursive: true });
    const file = join(broken, "model.safetensors");
    truncateSync(file, statSync(file).size - 100);
    const options = runOptions(folder.path, "broken-run", settings({ model: { path: broken } }));
    const error = await failureOf(run(options));
    expect(error.code).toBe("MODEL_FILE");
    expect(error.message).toContain("model.safetensors");
    expect(error.message).toMatch(/expected/);
  });

  it("is refused by name: a tokenizer that does not match the model", async () => {
    const mixed = join(folder.path, "mixed");
    cpSync(model, mixed, { recursive: true });
    const file = join(mixed, "config.json");
    const config = JSON.parse(readFileSync(file, "utf8"));
    writeFileSync(file, JSON.stringify({ ...config, vocab_size: config.vocab_size - 50 }));
    const error = await failureOf(run(runOptions(folder.path, "mixed-run", settings({ model: { path: mixed } }))));
    expect(["TOKENIZER", "MODEL_FILE"]).toContain(error.code);
    expect(error.message).toMatch(/vocab/i);
    // The start that failed left no run behind: the folder is free for the mended one.
    const mended = await run(runOptions(folder.path, "mixed-run", settings({ steps: 1 })));
    expect(mended.summary.steps).toBe(1);
  });

  it("is refused by name: a run too large for the machine's memory", async () => {
    const learner = { microBatchTokens: 2_000_000_000 };
    const error = await failureOf(run(runOptions(folder.path, "large-run", settings({ learner }))));
    expect(error.code).toBe("MEMORY");
    expect(error.message).toMatch(/needed[\s\S]*available/);
  });

  it("is refused by name: a run folder that holds another run, a checkpoint of another config", async () => {
    const first = await run(runOptions(folder.path, "twice", settings({ steps: 1 })));
    expect(first.summary.steps).toBe(1);
    const again = await failureOf(run(runOptions(folder.path, "twice", settings({ steps: 2 }))));
    expect(again.message).toMatch(/holds a run already[\s\S]*--resume/);
    const other = runOptions(folder.path, "twice", settings({ steps: 2, algorithm: { entropyBonus: 0.02 } }));
    const mixed = await failureOf(run({ ...other, resume: true }));
    expect(mixed.code).toBe("CHECKPOINT");
    expect(mixed.message).toMatch(/another config/);

    // The model counts by what it is, not by where it lies.
    const moved = join(folder.path, "moved-model");
    cpSync(model, moved, { recursive: true });
    const elsewhere = runOptions(folder.path, "twice", settings({ steps: 2, model: { path: moved } }));
    expect((await run({ ...elsewhere, resume: true })).summary.steps).toBe(2);
    const text = JSON.parse(readFileSync(join(moved, "generation_config.json"), "utf8")) as object;
    writeFileSync(join(moved, "generation_config.json"), JSON.stringify({ ...text, max_length: 7 }));
    const changed = runOptions(folder.path, "twice", settings({ steps: 3, model: { path: moved } }));
    expect((await failureOf(run({ ...changed, resume: true }))).message).toMatch(/another config/);
  });
});

/** Waits for output of `child` after which `check` holds; the child's end is a failure. */
async function lineMatching(child: ChildProcess, check: () => boolean): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let text = "";
    const look = (chunk: Buffer) => {
      text += chunk.toString();
      if (check()) resolve();
    };
    child.stdout!.on("data", look);
    child.stderr!.on("data", look);
    child.once("exit", (code) => reject(new Error(`ended early with ${code}: ${text}`)));
  });
}
