import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { crc32c, scalarEvent, startEvent, versionEvent } from "../../../src/observe/sinks/event-file.ts";
import { evaluationScalars, scalarsOf } from "../../../src/observe/sinks/scalars.ts";
import { TensorBoardSink } from "../../../src/observe/sinks/tensorboard.ts";
import { step } from "../run-folder/folders.ts";

const golden = readFileSync(fileURLToPath(new URL("../../golden/tensorboard.tfevents", import.meta.url)));

describe("TensorBoard's event files", () => {
  it("are byte for byte what TensorBoard's own messages and writer make (test/golden/make-tensorboard.py)", () => {
    const ours = Buffer.concat([
      versionEvent(1700000000.5),
      startEvent(1700000000.75, 1),
      scalarEvent(
        1700000001.25,
        1,
        new Map([
          ["reward", 0.1],
          ["task/kg/end/turn limit", 0],
          ["größe", -2.5e-8],
        ]),
      ),
      scalarEvent(
        1700000002,
        300,
        new Map([
          ["loss", Number.NaN],
          ["lr", Number.POSITIVE_INFINITY],
        ]),
      ),
      scalarEvent(1700000003, 3_000_000_000, new Map([["x".repeat(200), 1e30]])),
    ]);
    expect(ours.toString("hex")).toBe(golden.toString("hex"));
  });

  it("are checked by CRC-32C (the vectors of RFC 3720, B.4)", () => {
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
    expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
    expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe(0x46dd794e);
  });

  it("hold a run's steps, a session's start before each that is trained again, and evaluations by themselves", () => {
    const run = mkdtempSync(join(tmpdir(), "agentrl-tensorboard-"));
    const sink = new TensorBoardSink(run, 4, () => 1700000000);
    const [five, six] = [5, 6].map((number) => step(number, { kg: 0.5 }));
    const evaluated = { ...five!, evaluation: [report("kg", 0.75)] };
    for (const line of [five!, six!, evaluated, five!]) sink.line(line);
    sink.close();
    const [name, ...others] = readdirSync(join(run, "tensorboard"));
    expect(others).toEqual([]);
    expect(name).toMatch(/^events\.out\.tfevents\.1700000000\./);
    expect(name).toContain(hostname().replaceAll(/[^\w.-]/g, "_"));
    const at = 1700000000;
    const expected = [
      ...[
        versionEvent(at),
        startEvent(at, 5),
        scalarEvent(at, 5, scalarsOf(five!)),
        scalarEvent(at, 6, scalarsOf(six!)),
      ],
      ...[scalarEvent(at, 5, evaluationScalars(evaluated)), startEvent(at, 5), scalarEvent(at, 5, scalarsOf(five!))],
    ];
    expect(readFileSync(join(run, "tensorboard", name!)).equals(Buffer.concat(expected))).toBe(true);
    rmSync(run, { recursive: true });
  });
});

describe("the scalars of a step", () => {
  it("are its figures by name, without those that it does not measure", () => {
    const line = step(3, { kg: 0.5, os: 1 }, { mismatch: null, utilisation: { learner: 0.4, engine: null } });
    const scalars = scalarsOf(line);
    expect(Object.fromEntries(scalars)).toMatchObject({
      ...{ reward: 0.75, "task/kg/reward": 0.5, "task/os/reward": 1, "task/kg/end/turn limit": 0.25 },
      ...{ "utilisation/learner": 0.4, "milliseconds/train": 400, "faults/lostSamples": 0, bufferBytes: 1000 },
    });
    for (const absent of ["mismatch", "kl", "utilisation/engine", "step", "checksum"])
      expect(scalars.has(absent)).toBe(false);
    expect(Object.fromEntries(evaluationScalars({ evaluation: [report("kg", 0.75), report("os", null)] }))).toEqual({
      "heldOut/kg/success": 0.75,
      "heldOut/kg/reward": 0.75,
    });
  });
});

function report(task: string, success: number | null) {
  return { task, policy: "", episodes: 4, success, successes: 3, meanReward: success, endReasons: {} };
}
