import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { type HeldWeights, WeightBoard } from "../../src/shm/weight-board.ts";
import { freshName, startTestChild, type TestChild } from "./support.ts";

const boards: WeightBoard[] = [];
const children: TestChild[] = [];
function boardOf(slots: number, floats = 1000): WeightBoard {
  const board = WeightBoard.create({ name: freshName(), slots, bytes: floats * 4 });
  boards.push(board);
  return board;
}
function openAgain(board: WeightBoard): WeightBoard {
  const other = WeightBoard.open(board.name);
  boards.push(other);
  return other;
}
async function childOf(): Promise<TestChild> {
  const child = await startTestChild();
  children.push(child);
  return child;
}

afterEach(async () => {
  await Promise.all(
    children
      .splice(0)
      .map((child) =>
        child.process.exitCode === null && child.process.signalCode === null ? child.kill() : undefined,
      ),
  );
  for (const board of boards.splice(0)) {
    board.close();
    board.unlink();
  }
});

/** Each version is filled with its own number. */
function write(board: WeightBoard, version: number): number {
  const slot = board.beginWrite();
  slot.data.fill(version);
  board.publish(slot, version);
  return slot.slot;
}

const whole = ({ data, version }: HeldWeights) => data.every((value) => value === version);

describe("WeightBoard", () => {
  it("publishes versions that every handle sees, with their checksums", () => {
    const board = boardOf(3);
    const reader = openAgain(board);
    expect(reader.latestVersion()).toBe(-1);
    expect(reader.acquire()).toBeNull();
    expect(reader.versions()).toEqual([]);
    const slot = board.beginWrite();
    slot.data.forEach((_, i) => {
      slot.data[i] = i / 7;
    });
    expect(reader.latestVersion()).toBe(-1);
    const sum = board.publish(slot, 0);
    expect(reader.latestVersion()).toBe(0);
    const held = reader.acquire()!;
    expect(held).toMatchObject({ version: 0, slot: slot.slot, checksum: sum });
    expect(held.data).toEqual(Float32Array.from({ length: 1000 }, (_, i) => i / 7));
    expect(reader.checksum(held.data)).toBe(sum);
    // One changed bit changes the sum.
    const spoiled = held.data.slice();
    new Uint8Array(spoiled.buffer)[1234]! ^= 1;
    expect(reader.checksum(spoiled)).not.toBe(sum);
    expect(reader.versions()).toEqual([{ version: 0, slot: slot.slot, readers: [process.pid] }]);
    reader.release(held);
    expect(reader.versions()[0]!.readers).toEqual([]);
  });

  it("keeps the last versions, evicts the oldest, and gives null for what is gone", () => {
    const board = boardOf(3);
    for (let version = 0; version < 10; version++) write(board, version);
    expect(board.versions().map(({ version }) => version)).toEqual([7, 8, 9]);
    expect(board.acquire(6)).toBeNull();
    expect(board.acquire(10)).toBeNull();
    expect(whole(board.acquire(7)!)).toBe(true);
  });

  it("never overwrites a held version, and names the holders when no slot is free", () => {
    const board = boardOf(3);
    const reader = openAgain(board);
    write(board, 1);
    const one = reader.acquire()!;
    for (let version = 2; version < 8; version++) write(board, version);
    expect(whole(one)).toBe(true);
    expect(reader.versions().map(({ version }) => version)).toEqual([1, 6, 7]);
    const six = reader.acquire(6)!;
    expect(() => board.beginWrite()).toThrow(
      new RegExp(`every slot.*in use\n.*\n.*version 1 held by process ${process.pid}.*version 7 is the latest`),
    );
    one.release();
    one.release();
    write(board, 8);
    expect(whole(six)).toBe(true);
    // A handle that closes gives up its holds.
    reader.close();
    for (let version = 9; version < 12; version++) write(board, version);
  });

  it("allows one write at a time, of rising versions, and takes an abandoned one back", () => {
    const board = boardOf(2);
    write(board, 5);
    const slot = board.beginWrite();
    expect(() => openAgain(board).beginWrite()).toThrow(new RegExp(`under way\n.*\n.*process ${process.pid}`));
    expect(() => board.publish(slot, 5)).toThrow(/must rise(.*\n)*.*above the latest, 5/);
    expect(() => board.publish(slot, 1.5)).toThrow(/not a weight version/);
    board.abort(slot);
    expect(() => board.publish(slot, 6)).toThrow(/not being written/);
    expect(board.latestVersion()).toBe(5);
    write(board, 6);
    expect(board.versions().map(({ version }) => version)).toEqual([5, 6]);
  });

  it("wakes whoever waits for a version, and no one else", async () => {
    const board = boardOf(3);
    const reader = openAgain(board);
    const waits = [2, 1, 3].map((version) => reader.waitForVersion(version, 20_000));
    const never = reader.waitForVersion(100, 60);
    write(board, 1);
    expect(await waits[1]).toBe(1);
    expect(await never).toBeUndefined();
    write(board, 2);
    expect(await waits[0]).toBe(2);
    const slot = board.beginWrite();
    board.publish(slot, 7);
    expect(await waits[2]).toBe(7);
    expect(await reader.waitForVersion(7, 0)).toBe(7);
    const cut = reader.waitForVersion(8, 20_000);
    reader.close();
    await expect(cut).rejects.toThrow(/closed/);
  });

  it("refuses shapes that cannot be", () => {
    for (const [slots, bytes] of [
      [0, 400],
      [65, 400],
      [3, 0],
      [3, 402],
    ] as const) {
      expect(() => WeightBoard.create({ name: freshName(), slots, bytes })).toThrow(/not a shape/);
    }
    expect(() => WeightBoard.open(freshName())).toThrow(/No such file/);
  });

  it("keeps views mapped after the handle is closed", () => {
    const board = boardOf(2);
    write(board, 3);
    const { data } = board.acquire()!;
    board.close();
    board.unlink();
    expect(data[999]).toBe(3);
  });
});

describe("processes that die", () => {
  it("lose their holds, and their half-written slot, when the writer needs it", async () => {
    const board = boardOf(2);
    write(board, 1);
    const child = await childOf();
    await child.ask({ do: "hold", board: board.name, version: 1 });
    write(board, 2);
    expect(() => board.beginWrite()).toThrow(new RegExp(`version 1 held by process ${child.process.pid}`));
    await child.kill();
    write(board, 3);
    const writer = await childOf();
    await writer.ask({ do: "write", board: board.name });
    expect(() => board.beginWrite()).toThrow(/under way/);
    await writer.kill();
    expect(board.latestVersion()).toBe(3);
    expect(board.acquire(2)).toBeNull();
    write(board, 4);
    const held = board.acquire()!;
    expect(held.version).toBe(4);
    expect(whole(held)).toBe(true);
  });

  it("reading while versions are published, nobody sees a torn one", async () => {
    const board = boardOf(4, 50_000);
    const last = 300;
    const readers = await Promise.all([childOf(), childOf()]);
    const results = readers.map((child) => child.ask({ do: "read", board: board.name, last }));
    for (let version = 0; version <= last; version++) {
      write(board, version);
      // Lets the event loop turn, as a learner does between steps.
      if (version % 10 === 0) await board.waitForVersion(version, 0);
    }
    for (const result of (await Promise.all(results)) as { reads: number; faults: number; wrongSums: number }[]) {
      expect(result.reads).toBeGreaterThan(0);
      expect(result).toMatchObject({ faults: 0, wrongSums: 0 });
    }
  });
});

it("under any order of calls holds what a table of slots would hold", () => {
  const step = fc.oneof(
    fc.record({ call: fc.constant("publish" as const) }),
    fc.record({ call: fc.constant("abort" as const) }),
    fc.record({ call: fc.constant("acquire" as const), back: fc.nat({ max: 6 }) }),
    fc.record({ call: fc.constant("release" as const), which: fc.nat() }),
  );
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 5 }), fc.array(step, { maxLength: 120, size: "max" }), (slots, steps) => {
      const board = WeightBoard.create({ name: freshName(), slots, bytes: 64 });
      const reader = WeightBoard.open(board.name);
      let present: number[] = [];
      let latest = -1;
      const held: HeldWeights[] = [];
      // What beginWrite evicts: nothing while a slot is empty, else the oldest version that may go.
      const evict = () => {
        if (present.length < slots) return true;
        const victim = present.find((version) => version !== latest && !held.some((one) => one.version === version));
        if (victim === undefined) return false;
        present = present.filter((version) => version !== victim);
        return true;
      };
      try {
        for (const one of steps) {
          if (one.call === "publish" || one.call === "abort") {
            if (!evict()) {
              expect(() => board.beginWrite()).toThrow(/in use/);
              continue;
            }
            const slot = board.beginWrite();
            slot.data.fill(latest + 1);
            if (one.call === "publish") {
              board.publish(slot, ++latest);
              present.push(latest);
            } else {
              board.abort(slot);
            }
          } else if (one.call === "acquire") {
            const got = reader.acquire(Math.max(0, latest - one.back));
            expect(got !== null).toBe(present.includes(Math.max(0, latest - one.back)));
            if (got !== null) held.push(got);
          } else if (held.length > 0) {
            reader.release(held.splice(one.which % held.length, 1)[0]!);
          }
          expect(held.every(whole)).toBe(true);
          expect(reader.latestVersion()).toBe(latest);
          expect(reader.versions().map(({ version, readers }) => [version, readers.length])).toEqual(
            present.map((version) => [version, held.filter((held) => held.version === version).length]),
          );
        }
      } finally {
        board.close();
        reader.close();
        board.unlink();
      }
    }),
    { numRuns: 60 },
  );
});
