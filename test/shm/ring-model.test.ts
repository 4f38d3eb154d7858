/** The ring against a plain queue, under any order of calls on several handles (fast-check's model-based testing). */
import fc from "fast-check";
import { expect, it } from "vitest";
import { Ring, type RingRecord } from "../../src/shm/ring.ts";
import { freshName, pattern } from "./support.ts";

interface Entry {
  seed: number;
  size: number;
  deliveries: number;
}

/** What must be in the ring: records in the order in which they are delivered next, and those that handles hold. */
interface Model {
  queue: { order: number; entry: Entry }[];
  held: { order: number; entry: Entry; handle: number }[];
  pushed: number;
  acked: number;
  closed: boolean;
}

interface Real {
  name: string;
  handles: Ring[];
  held: Map<number, RingRecord>;
}

type Step = fc.Command<Model, Real>;
const capacity = 1 << 14;

class Push implements Step {
  constructor(
    readonly handle: number,
    readonly size: number,
  ) {}
  check = () => true;
  run(model: Model, { handles }: Real): void {
    const seed = model.pushed;
    const push = () => handles[this.handle]!.tryPush(pattern(seed, this.size));
    if (this.size > capacity / 4) {
      expect(push).toThrow(/too large/);
    } else if (model.closed) {
      expect(push).toThrow(/closed/);
    } else if (push()) {
      model.queue.push({ order: model.pushed, entry: { seed, size: this.size, deliveries: 0 } });
      model.pushed++;
    } else {
      // Full is never said to an empty ring.
      expect(model.queue.length + model.held.length).toBeGreaterThan(0);
    }
  }
  toString = () => `push(${this.handle}, ${this.size})`;
}

class Pop implements Step {
  constructor(
    readonly handle: number,
    readonly inPlace: boolean,
  ) {}
  check = () => true;
  run(model: Model, { handles, held }: Real): void {
    const record = handles[this.handle]!.tryPop({ inPlace: this.inPlace });
    const next = model.queue.shift();
    if (next === undefined) {
      expect(record).toBe(model.closed ? null : undefined);
      return;
    }
    const { order, entry } = next;
    entry.deliveries++;
    expect(record!.deliveries).toBe(entry.deliveries);
    expect(Buffer.compare(record!.bytes, pattern(entry.seed, entry.size))).toBe(0);
    model.held.push({ order, entry, handle: this.handle });
    held.set(order, record!);
  }
  toString = () => `pop(${this.handle}${this.inPlace ? ", in place" : ""})`;
}

class Settle implements Step {
  constructor(
    readonly which: number,
    readonly how: "ack" | "giveBack",
  ) {}
  check = (model: Readonly<Model>) => model.held.length > 0;
  run(model: Model, { held }: Real): void {
    const [settled] = model.held.splice(this.which % model.held.length, 1);
    const { order, entry } = settled!;
    // In place, the content is still there: nothing has been written over it.
    expect(Buffer.compare(held.get(order)!.bytes, pattern(entry.seed, entry.size))).toBe(0);
    held.get(order)![this.how]();
    held.delete(order);
    if (this.how === "ack") model.acked++;
    else putBack(model, [{ order, entry }]);
  }
  toString = () => `${this.how}(${this.which})`;
}

class Reopen implements Step {
  constructor(readonly handle: number) {}
  check = () => true;
  run(model: Model, { handles, held, name }: Real): void {
    handles[this.handle]!.detach();
    handles[this.handle] = Ring.open(name);
    const mine = model.held.filter(({ handle }) => handle === this.handle);
    model.held = model.held.filter(({ handle }) => handle !== this.handle);
    for (const { order } of mine) held.delete(order);
    putBack(model, mine);
  }
  toString = () => `reopen(${this.handle})`;
}

class Close implements Step {
  // Not so early that most sequences would be about a closed ring.
  check = (model: Readonly<Model>) => model.pushed > 40;
  run(model: Model, { handles }: Real): void {
    handles[0]!.close();
    model.closed = true;
  }
  toString = () => "close";
}

class Stats implements Step {
  check = () => true;
  run(model: Model, { handles }: Real): void {
    const stats = handles[0]!.stats();
    expect(stats).toMatchObject({
      pending: model.queue.length,
      taken: model.held.length,
      reserved: 0,
      records: model.pushed,
      acked: model.acked,
      closed: model.closed,
      corrupt: 0,
      lockRecoveries: 0,
    });
    if (model.queue.length + model.held.length === 0) expect(stats.usedBytes).toBe(0);
    expect(stats.usedBytes).toBeLessThanOrEqual(capacity);
  }
  toString = () => "stats";
}

function putBack(model: Model, records: { order: number; entry: Entry }[]): void {
  model.queue.push(...records.map(({ order, entry }) => ({ order, entry })));
  model.queue.sort((a, b) => a.order - b.order);
}

it("behaves as a queue whose unacknowledged records come back", () => {
  const handle = fc.nat({ max: 2 });
  const size = fc.oneof(
    { weight: 5, arbitrary: fc.nat({ max: 300 }) },
    { weight: 4, arbitrary: fc.nat({ max: capacity / 4 }) },
    { weight: 1, arbitrary: fc.integer({ min: capacity / 4 - 1, max: capacity / 4 + 1 }) },
  );
  const push = fc.tuple(handle, size).map(([h, s]): Step => new Push(h, s));
  const pop = fc.tuple(handle, fc.boolean()).map(([h, p]): Step => new Pop(h, p));
  const ack = fc.nat().map((which): Step => new Settle(which, "ack"));
  const giveBack = fc.nat().map((which): Step => new Settle(which, "giveBack"));
  const reopen = handle.map((h): Step => new Reopen(h));
  const rest = [new Stats(), new Close()].map((step: Step) => fc.constant(step));
  const commands = fc.commands([push, push, pop, pop, ack, ack, giveBack, reopen, ...rest], {
    maxCommands: 200,
    size: "max",
  });
  fc.assert(
    fc.property(commands, (steps) => {
      const name = freshName();
      const first = Ring.create({ name, capacityBytes: capacity });
      const real: Real = { name, handles: [first, Ring.open(name), Ring.open(name)], held: new Map() };
      try {
        fc.modelRun(() => ({ model: { queue: [], held: [], pushed: 0, acked: 0, closed: false }, real }), steps);
      } finally {
        for (const ring of real.handles) ring.detach();
        first.unlink();
      }
    }),
    { numRuns: 100 },
  );
});
