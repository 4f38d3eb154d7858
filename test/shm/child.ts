/** Entry of a child process of the shared-memory tests. */
import { Ring } from "../../src/shm/ring.ts";
import { WeightBoard } from "../../src/shm/weight-board.ts";
import { pattern, sizeOf } from "./support.ts";

export type ToChild =
  /** Takes `count` records and acknowledges the first `ack` of them. */
  | { do: "take"; ring: string; count: number; ack: number }
  /** Pushes records 0, 1, 2, ... of changing sizes, and reports each that is in the ring, until it is killed. */
  | { do: "push"; ring: string }
  | { do: "hold"; board: string; version: number }
  /** Begins a write, spoils the slot, and leaves it so. */
  | { do: "write"; board: string }
  /** Reads the latest version again and again until `last` comes; reports how many reads were torn or out of order. */
  | { do: "read"; board: string; last: number };

/** Never collected: what a handle holds lasts as long as this process. */
const kept: unknown[] = [];

async function act(message: ToChild): Promise<unknown> {
  switch (message.do) {
    case "take": {
      const ring = Ring.open(message.ring);
      const sequences: number[] = [];
      for (let i = 0; i < message.count; i++) {
        const record = await ring.pop();
        if (i < message.ack) record!.ack();
        sequences.push(record!.sequence);
      }
      kept.push(ring);
      return sequences;
    }
    case "push": {
      const ring = Ring.open(message.ring);
      for (let number = 0; ; number++) {
        await ring.push(pattern(number, sizeOf(number)));
        process.send!(number);
      }
    }
    case "hold": {
      const board = WeightBoard.open(message.board);
      kept.push(board, board.acquire(message.version));
      return "held";
    }
    case "write": {
      const board = WeightBoard.open(message.board);
      board.beginWrite().data.fill(-1);
      kept.push(board);
      return "begun";
    }
    case "read": {
      const board = WeightBoard.open(message.board);
      const result = { reads: 0, faults: 0, wrongSums: 0 };
      for (let seen = -1; seen < message.last; ) {
        await board.waitForVersion(seen + 1, 30_000);
        const held = board.acquire();
        if (held === null) continue;
        if (held.version < seen) result.faults++;
        if (!held.data.every((value) => value === held.version)) result.faults++;
        if (board.checksum(held.data) !== held.checksum) result.wrongSums++;
        seen = held.version;
        result.reads++;
        held.release();
      }
      return result;
    }
  }
}

process.on("message", async (message: ToChild) => process.send!((await act(message)) as object));
process.on("disconnect", () => process.exit());
if (process.send !== undefined) process.send("ready");
