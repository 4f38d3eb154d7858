/**
 * The ring under SIGKILL. The storms run in C++ processes, which start in a millisecond (native/shm/test); what they do
 * to the ring is what the addon does. Two scenes with Node processes show the same through the API.
 */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { Ring } from "../../src/shm/ring.ts";
import { bytesOf, freshName, pattern, sizeOf, startTestChild, text } from "./support.ts";

const program = (name: string) => fileURLToPath(new URL(`../../build/Release/${name}`, import.meta.url));
const run = promisify(execFile);

interface StormReport {
  kills: number;
  pushed: number;
  acked: number;
  inDoubt: number;
  redelivered: number;
  reclaimed: number;
  lockRecoveries: number;
  violations: number;
  seconds: number;
}

async function storm(options: Record<string, number>): Promise<StormReport> {
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const { stdout, stderr } = await run(program("ring_stress"), args, { timeout: 300_000 });
  expect(stderr).toBe("");
  return JSON.parse(stdout) as StormReport;
}

describe("a thousand kills at random instants", () => {
  const storms = [
    { kills: 500, producers: 4, consumers: 4, capacity: 8 << 20, gap: 6_000, seed: 1 },
    // A ring that is nearly always full, and one that is nearly always empty.
    { kills: 250, producers: 4, consumers: 1, capacity: 4 << 20, gap: 5_000, seed: 2 },
    { kills: 250, producers: 1, consumers: 4, capacity: 4 << 20, gap: 5_000, seed: 3 },
  ];
  const reports: StormReport[] = [];

  it.each(storms)(
    "$kills kills, $producers producers, $consumers consumers: nothing torn, lost or repeated",
    async (options) => {
      const report = await storm(options);
      reports.push(report);
      expect(report.violations).toBe(0);
      expect(report.kills).toBe(options.kills);
      // Each kill can leave one record of which nobody can say whether its ack was the last thing done.
      expect(report.inDoubt).toBeLessThanOrEqual(options.kills);
      expect(report.acked).toBeGreaterThan(options.kills);
    },
    300_000,
  );

  it("were a thousand, and met records half written and half consumed", () => {
    const total = (key: keyof StormReport) => reports.reduce((sum, report) => sum + report[key], 0);
    expect(total("kills")).toBe(1000);
    expect(total("reclaimed")).toBeGreaterThan(0);
    expect(total("redelivered")).toBeGreaterThan(0);
  });
});

it("survives a kill after every single store of each operation, ring and board", async (context) => {
  expect(existsSync(program("kill_step"))).toBe(true);
  const { stdout } = await run(program("kill_step"), [], { timeout: 100_000 });
  if (stdout.includes("skipped")) context.skip(stdout.trim());
  for (const operation of ["push", "take and ack", "give back", "sweep", "publish", "acquire and release"]) {
    expect(stdout).toContain(`kill_step: ${operation}: `);
  }
});

describe("Node processes", () => {
  it("get what a killed consumer had taken and not acknowledged", async () => {
    const ring = Ring.create({ name: freshName(), capacityBytes: 1 << 16 });
    const child = await startTestChild();
    for (const word of ["a", "b", "c", "d"]) await ring.push(bytesOf(word));
    expect(await child.ask({ do: "take", ring: ring.name, count: 3, ack: 1 })).toEqual([1, 2, 3]);
    const fourth = (await ring.pop())!;
    expect(text(fourth.bytes)).toBe("d");
    fourth.ack();
    const orphan = ring.pop();
    await child.kill();
    const [b, c] = [(await orphan)!, (await ring.pop())!];
    expect([b, c].map(({ bytes, deliveries }) => [text(bytes), deliveries])).toEqual([
      ["b", 2],
      ["c", 2],
    ]);
    b.ack();
    c.ack();
    expect(ring.stats()).toMatchObject({ usedBytes: 0, redelivered: 2 });
    ring.detach();
    ring.unlink();
  });

  it("get every record whose push had resolved when the producer was killed, and at most one more", async () => {
    const ring = Ring.create({ name: freshName(), capacityBytes: 1 << 18 });
    const child = await startTestChild();
    let acknowledged = -1;
    child.process.on("message", (number: number) => {
      acknowledged = number;
    });
    child.process.send({ do: "push", ring: ring.name });
    let next = 0;
    const check = (bytes: Uint8Array) => {
      expect(Buffer.compare(bytes, pattern(next, sizeOf(next)))).toBe(0);
      next++;
    };
    while (next < 200) {
      const record = (await ring.pop())!;
      check(record.bytes);
      record.ack();
    }
    await child.kill();
    ring.reclaim();
    ring.close();
    for (let record = await ring.pop(); record !== null; record = await ring.pop()) {
      check(record!.bytes);
      record!.ack();
    }
    expect(next).toBeGreaterThan(acknowledged);
    expect(ring.stats().usedBytes).toBe(0);
    ring.detach();
    ring.unlink();
  });
});
