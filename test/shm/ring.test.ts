import { closeSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { shm } from "../../src/shm/native.ts";
import { Ring } from "../../src/shm/ring.ts";
import { bytesOf, freshName, pattern, text } from "./support.ts";

const rings: Ring[] = [];
function ringOf(capacityBytes: number): Ring {
  const ring = Ring.create({ name: freshName(), capacityBytes });
  rings.push(ring);
  return ring;
}
function openAgain(ring: Ring): Ring {
  const other = Ring.open(ring.name);
  rings.push(other);
  return other;
}

afterEach(() => {
  for (const ring of rings.splice(0)) {
    ring.detach();
    ring.unlink();
  }
});

/** Fills the ring; gives the number of records that went in. */
function fill(ring: Ring, record: Uint8Array): number {
  let count = 0;
  while (ring.tryPush(record)) count++;
  return count;
}

describe("Ring", () => {
  it("hands records over in order, byte for byte, copied or in place", async () => {
    const ring = ringOf(8 << 20);
    const reader = openAgain(ring);
    const sizes = [0, 1, 63, 64, 65, 4096, 70_001, 1 << 20];
    for (const [i, size] of sizes.entries()) await ring.push(pattern(i, size));
    for (const [i, size] of sizes.entries()) {
      const record = (await reader.pop({ inPlace: i % 2 === 1 }))!;
      expect(Buffer.compare(record.bytes, pattern(i, size))).toBe(0);
      expect(record.sequence).toBe(i + 1);
      expect(record.deliveries).toBe(1);
      record.ack();
    }
    expect(reader.stats()).toMatchObject({
      records: sizes.length,
      bytes: sizes.reduce((total, size) => total + size, 0),
      acked: sizes.length,
      usedBytes: 0,
      pending: 0,
      taken: 0,
      corrupt: 0,
    });
  });

  it("goes round its buffer many times", async () => {
    const ring = ringOf(1 << 16);
    for (let i = 0; i < 400; i++) {
      const size = (i * 1571) % ((1 << 14) + 1);
      await ring.push(pattern(i, size));
      const record = (await ring.pop())!;
      expect(Buffer.compare(record.bytes, pattern(i, size))).toBe(0);
      record.ack();
    }
  });

  it("takes records up to a quarter of its capacity and refuses larger ones by name", async () => {
    const ring = ringOf(1 << 16);
    expect(ring.maxRecordBytes).toBe(1 << 14);
    await ring.push(new Uint8Array(1 << 14));
    await expect(ring.push(new Uint8Array((1 << 14) + 1))).rejects.toMatchObject({
      code: "SHARED_MEMORY",
      detail: {
        where: `ring ${ring.name}`,
        got: "16385 bytes",
        expected: "at most 16384 bytes, a quarter of the ring",
      },
    });
  });

  it("makes producers wait while it is full, and serves them in order", async () => {
    const ring = ringOf(1 << 16);
    const reader = openAgain(ring);
    const record = new Uint8Array(16_000);
    const inside = fill(ring, record);
    expect(inside).toBe(4);
    const order: string[] = [];
    const large = ring.push(record).then(() => order.push("large"));
    const small = ring.push(bytesOf("small")).then(() => order.push("small"));
    for (let i = 0; i < inside; i++) (await reader.pop())!.ack();
    await Promise.all([large, small]);
    expect(order).toEqual(["large", "small"]);
    expect((await reader.pop())!.bytes.length).toBe(16_000);
    expect(text((await reader.pop())!.bytes)).toBe("small");
    expect(ring.stats().pushWaits).toBeGreaterThan(0);
  });

  it("ends every wait by its deadline: a pop with undefined, a push with an error that says what fills the ring", async () => {
    const ring = ringOf(1 << 16);
    const start = performance.now();
    expect(await ring.pop({ timeoutMs: 50 })).toBeUndefined();
    expect(performance.now() - start).toBeGreaterThanOrEqual(49);
    // A later call with a nearer deadline is not held up by the one before.
    const patient = ring.pop({ timeoutMs: 60_000 });
    expect(await ring.pop({ timeoutMs: 20 })).toBeUndefined();
    fill(openAgain(ring), new Uint8Array(16_000));
    const taken = (await patient)!;
    await expect(ring.push(new Uint8Array(16_000), { timeoutMs: 50 })).rejects.toMatchObject({
      code: "SHARED_MEMORY",
      message: expect.stringContaining("stayed full for 50 ms"),
      detail: { got: expect.stringContaining("3 records waiting, 1 taken, 0 being written") },
    });
    taken.ack();
    await ring.push(new Uint8Array(16_000), { timeoutMs: 60_000 });
  });

  it("keeps the event loop free while it waits", async () => {
    const ring = ringOf(1 << 16);
    const waiting = ring.pop();
    let turns = 0;
    const count = () => {
      turns++;
      if (turns < 100) setImmediate(count);
      else void openAgain(ring).push(bytesOf("now"));
    };
    setImmediate(count);
    expect(text((await waiting)!.bytes)).toBe("now");
    expect(turns).toBe(100);
  });

  it("after close refuses pushes, wakes waiters, and gives what is left, then null", async () => {
    const ring = ringOf(1 << 16);
    const idle = ringOf(1 << 16);
    const other = openAgain(ring);
    const waiter = openAgain(idle).pop();
    fill(ring, new Uint8Array(16_000));
    const blocked = ring.push(new Uint8Array(16_000));
    other.close();
    idle.close();
    await expect(blocked).rejects.toMatchObject({ code: "SHARED_MEMORY", message: expect.stringContaining("closed") });
    expect(() => ring.tryPush(bytesOf("late"))).toThrow(/closed/);
    expect(await waiter).toBeNull();
    for (let i = 0; i < 4; i++) (await ring.pop())!.ack();
    expect(await ring.pop()).toBeNull();
    expect(ring.stats().closed).toBe(true);
  });

  it("gives a record to the next consumer when it is given back or its handle goes", async () => {
    const ring = ringOf(1 << 16);
    const other = openAgain(ring);
    for (const word of ["a", "b"]) await ring.push(bytesOf(word));
    const first = (await other.pop())!;
    const second = (await other.pop())!;
    first.giveBack();
    expect(() => first.ack()).toThrow(/already acknowledged or given back/);
    const again = (await ring.pop())!;
    expect([text(again.bytes), again.deliveries]).toEqual(["a", 2]);
    again.ack();
    expect(() => again.ack()).toThrow(/already acknowledged or given back/);
    other.detach();
    expect(() => second.ack()).toThrow(/detached/);
    const last = (await ring.pop())!;
    expect([text(last.bytes), last.deliveries]).toEqual(["b", 2]);
    expect(ring.stats().redelivered).toBe(2);
  });

  it("rejects the waits of a handle that is detached, and leaves the ring to others", async () => {
    const ring = ringOf(1 << 16);
    const other = openAgain(ring);
    const pop = ring.pop();
    ring.detach();
    await expect(pop).rejects.toThrow(/detached/);
    await expect(ring.push(bytesOf("x"))).rejects.toThrow(/detached/);
    await other.push(bytesOf("y"));
    expect(text((await other.pop())!.bytes)).toBe("y");
  });

  it.skipIf(process.platform !== "linux")("reports a record whose bytes were changed, and goes on", async () => {
    const ring = ringOf(1 << 16);
    for (const word of ["first record", "second record", "third record"]) await ring.push(bytesOf(word));
    // The buffer lies behind a page of bookkeeping; a record's bytes behind a header of 64.
    for (const [at, expected] of [
      [4096 + 64, "first record"],
      [4096 + 128 + 64, "second record"],
    ] as const) {
      const file = openSync(`/dev/shm${ring.name}`, "r+");
      const found = Buffer.alloc(expected.length);
      readSync(file, found, 0, found.length, at);
      expect(found.toString()).toBe(expected);
      writeSync(file, Buffer.from([found[5]! ^ 0x10]), 0, 1, at + 5);
      closeSync(file);
    }
    await expect(ring.pop()).rejects.toMatchObject({
      code: "SHARED_MEMORY",
      message: expect.stringContaining("failed its checksum"),
      detail: { where: `ring ${ring.name}, record 1 of 12 bytes` },
    });
    await expect(ring.pop({ inPlace: true })).rejects.toThrow(/failed its checksum/);
    const third = (await ring.pop())!;
    expect(text(third.bytes)).toBe("third record");
    third.ack();
    expect(ring.stats()).toMatchObject({ corrupt: 2, usedBytes: 0 });
  });

  it("refuses names, capacities and segments that cannot be, each with what to do", () => {
    const ring = ringOf(1 << 16);
    expect(() => Ring.create({ name: ring.name, capacityBytes: 4096 })).toThrow(
      new RegExp(`exists\n.*\n.*process ${process.pid}`),
    );
    expect(() => Ring.create({ name: "/somewhere/else", capacityBytes: 4096 })).toThrow(/not a name/);
    expect(() => Ring.create({ name: freshName(), capacityBytes: 100 })).toThrow(/not a capacity/);
    expect(() => Ring.open(freshName())).toThrow(/No such file/);
    const free = shm.freeSharedMemory();
    if (free > 0) {
      const name = freshName();
      expect(() => Ring.create({ name, capacityBytes: free + 2 ** 30 })).toThrow(
        /not enough shared memory\n.*where.*\n.*got: .*free\n.*expected: .*bytes\)\n.*do: .*--shm-size/,
      );
      expect(() => statSync(`/dev/shm${name}`)).toThrow(/ENOENT/);
    }
  });
});
