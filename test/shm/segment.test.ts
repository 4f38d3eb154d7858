import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { Ring } from "../../src/shm/ring.ts";
import { removeStaleSegments, segmentName, unlink } from "../../src/shm/segment.ts";
import { freshName } from "./support.ts";

/** Runs a process that creates a ring of this name and then does `end`. */
function createAnd(end: string, name: string): void {
  const module = fileURLToPath(new URL("../../src/shm/ring.ts", import.meta.url));
  const source = `import(${JSON.stringify(module)}).then(({ Ring }) => {
    Ring.create({ name: ${JSON.stringify(name)}, capacityBytes: 4096 });
    ${end};
  })`;
  spawnSync(process.execPath, ["--import", "tsx", "--eval", source], { timeout: 60_000 });
}

const exists = (name: string) => readdirSync("/dev/shm").includes(name.slice(1));

describe.skipIf(process.platform !== "linux")("segments", () => {
  it("are gone when the process that made them exits", () => {
    const name = freshName();
    createAnd("process.exit(0)", name);
    expect(exists(name)).toBe(false);
  });

  it("of a killed process are found by its death: replaced, or removed", () => {
    const name = freshName();
    const other = freshName();
    createAnd("process.kill(process.pid, 'SIGKILL')", name);
    createAnd("process.kill(process.pid, 'SIGKILL')", other);
    expect([exists(name), exists(other)]).toEqual([true, true]);
    const ring = Ring.create({ name, capacityBytes: 8192 });
    expect(ring.stats()).toMatchObject({ capacity: 8192, records: 0 });
    expect(removeStaleSegments()).toContain(other);
    expect(exists(other)).toBe(false);
    // Those of the living are left alone.
    expect(exists(name)).toBe(true);
    ring.detach();
    expect(ring.unlink()).toBe(true);
    expect(unlink(name)).toBe(false);
  });

  it("are named after their run", () => {
    expect(segmentName("run-1", "ring")).toBe("/agentrl-run-1-ring");
    expect(() => segmentName("a/b", "ring")).toThrow(/not a name/);
    expect(() => segmentName("x".repeat(300), "ring")).toThrow(/not a name/);
  });
});
