import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { observeSchema } from "../../../src/config/observe.ts";
import { assertSinksUsable, Sinks } from "../../../src/observe/sinks/sinks.ts";
import { noFaults } from "../../../src/pipeline/faults.ts";
import { step } from "../run-folder/folders.ts";
import { type WandbServer, wandbServer } from "./wandb-server.ts";

let run: string;
beforeAll(() => {
  run = mkdtempSync(join(tmpdir(), "agentrl-sinks-"));
});
afterAll(() => rmSync(run, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

async function open(observe: object) {
  const faults = noFaults();
  const notices: string[] = [];
  const sinks = await Sinks.open({
    config: observeSchema.parse(observe),
    ...{ run, settings: { steps: 9, optimizer: { lr: 0.1 } }, step: 0, steps: 9, faults },
    notice: (message) => notices.push(message),
  });
  return { sinks, faults, notices };
}

const evaluation = [
  { task: "kg", policy: "", episodes: 8, success: 0.5, successes: 4, meanReward: 0.5, endReasons: {} },
];

describe("sinks that fail", () => {
  it("are counted by name and said once, and the others go on", async () => {
    writeFileSync(join(run, "tensorboard"), "in the way");
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as AddressInfo;
    const broken = await open({ tensorboard: true, prometheus: { port } });
    broken.sinks.line(step(1, { kg: 0.5 }));
    await broken.sinks.close();
    expect(broken.faults).toEqual({ ...noFaults(), tensorboardFailures: 1, prometheusFailures: 1 });
    expect(broken.notices).toEqual([
      expect.stringMatching(/^TensorBoard: .*EEXIST.*; the run goes on$/),
      expect.stringMatching(/^Prometheus: .*EADDRINUSE.*; the run goes on$/),
    ]);
    taken.close();
    rmSync(join(run, "tensorboard"));

    const half = await open({ tensorboard: true, prometheus: { port: 0 } });
    await half.sinks.close();
    expect(half.faults).toEqual(noFaults());
    expect(half.notices).toEqual([expect.stringMatching(/^metrics for Prometheus: http:\/\/127/)]);
  });
});

describe("Weights & Biases", () => {
  let server: WandbServer;
  beforeAll(async () => {
    server = await wandbServer();
  });
  afterAll(() => server.close());

  it("needs a key before the run begins", () => {
    vi.stubEnv("WANDB_API_KEY", "");
    expect(() => assertSinksUsable(observeSchema.parse({ wandb: { project: "p" } }))).toThrow(/WANDB_API_KEY/);
    expect(() => assertSinksUsable(observeSchema.parse({}))).not.toThrow();
  });

  it("gets every step once, in order, also after the run went back, through the real package", async () => {
    vi.stubEnv("WANDB_API_KEY", "k".repeat(40));
    vi.stubEnv("WANDB_BASE_URL", server.url);
    const signals = process.listenerCount("SIGINT");
    const { sinks, faults, notices } = await open({ wandb: { project: "agents", name: "first" } });
    const lines = [1, 2, 3, 4].map((number) => step(number, { kg: number / 10 }));
    for (const line of lines) sinks.line(line);
    sinks.line({ ...lines[3]!, evaluation });
    for (const line of lines.slice(2)) sinks.line(line);
    // The package would end the process on Ctrl-C.
    expect(process.listenerCount("SIGINT")).toBe(signals);
    await sinks.close();
    expect(faults).toEqual(noFaults());
    expect(notices).toEqual([expect.stringMatching(/^Weights & Biases: .*\/owner\/agents\/runs\/\w+$/)]);
    expect(server.keys).toEqual(new Set([`api:${"k".repeat(40)}`]));
    expect(server.run).toMatchObject({ project: "agents", displayName: "first" });
    expect(JSON.parse(server.run!.config as string)).toEqual({ steps: 9, optimizer: { lr: 0.1 } });
    expect(server.rows.map((row) => [row.step, row["task/kg/reward"]])).toEqual([
      ...[
        [1, 0.1],
        [2, 0.2],
        [3, 0.3],
        [4, 0.4],
      ],
      ...[
        [3, 0.3],
        [4, 0.4],
      ],
    ]);
    const places = server.rows.map((row) => row._step as number);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places.slice(0, 4)).toEqual([1, 2, 3, 4]);
    expect(server.rows.filter((row) => row["heldOut/kg/success"] === 0.5).map((row) => row["heldOut/step"])).toEqual([
      4,
    ]);
    expect(server.complete).toBe(true);
  });

  it("that does not answer costs its metrics alone", async () => {
    const gone = await wandbServer();
    await gone.close();
    vi.stubEnv("WANDB_API_KEY", "k".repeat(40));
    vi.stubEnv("WANDB_BASE_URL", gone.url);
    const { sinks, faults, notices } = await open({ wandb: { project: "agents" } });
    sinks.line(step(1, { kg: 0.5 }));
    await sinks.close();
    expect(faults.wandbFailures).toBeGreaterThan(0);
    expect(faults).toEqual({ ...noFaults(), wandbFailures: faults.wandbFailures });
    expect(notices).toEqual([expect.stringMatching(/^Weights & Biases: .*; the run goes on$/)]);
  });
});
