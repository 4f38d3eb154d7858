/** One producer or consumer of `agentrl bench ring`: a process of its own, which runs one measurement after another. */
import { connectToSupervisor } from "../pipeline/children.ts";
import { Ring } from "../shm/ring.ts";

export interface RingTask {
  role: "producer" | "consumer";
  ring: string;
  /** Size of a record. */
  bytes: number;
  /** How long a producer pushes. */
  seconds: number;
  /** Consumers read records in the ring's memory instead of copying them out. */
  inPlace: boolean;
}

export type FromRingWorker =
  | { type: "ready" }
  | { type: "done"; records: number }
  | { type: "failed"; message: string };

/** Time without a record, or without space, after which something is wrong. */
const timeoutMs = 30_000;

async function produce(ring: Ring, bytes: number, seconds: number): Promise<number> {
  const record = new Uint8Array(bytes).fill(1);
  const end = performance.now() + seconds * 1e3;
  let records = 0;
  while (performance.now() < end) {
    await ring.push(record, { timeoutMs });
    records++;
  }
  return records;
}

async function consume(ring: Ring, inPlace: boolean): Promise<number> {
  for (let records = 0; ; records++) {
    const record = await ring.pop({ timeoutMs, inPlace });
    if (record === null) return records;
    if (record === undefined) throw new Error(`no record for ${timeoutMs} ms`);
    record.ack();
  }
}

const send = connectToSupervisor<RingTask, FromRingWorker>(async ({ role, ring: name, bytes, seconds, inPlace }) => {
  try {
    const ring = Ring.open(name);
    const records = role === "producer" ? await produce(ring, bytes, seconds) : await consume(ring, inPlace);
    ring.detach();
    send({ type: "done", records });
  } catch (error) {
    send({ type: "failed", message: error instanceof Error ? error.message : String(error) });
  }
});
send({ type: "ready" });
