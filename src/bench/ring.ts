/**
 * `agentrl bench ring`: records and bytes per second through the ring between processes, beside memcpy of the same
 * sizes in the same run. Copying into the ring, the checksum and its check are in the ring's figure; consumers read the
 * record in place, as a decoder does, or copy it out into new memory. memcpy's figure is one plain copy to successive
 * places of a region as large as the ring.
 */
import { cpus } from "node:os";
import { AgentRLError } from "../errors.ts";
import { ownModule } from "../own-files.ts";
import { type ChildProcessOf, startChild } from "../pipeline/children.ts";
import { shm } from "../shm/native.ts";
import { Ring } from "../shm/ring.ts";
import { segmentName } from "../shm/segment.ts";
import type { FromRingWorker, RingTask } from "./ring-worker.ts";

export interface RingOptions {
  /** Measure with so many processes only; the other kind is then 1 by default. @default 1 to 1 and 4 to 4 */
  producers?: number;
  consumers?: number;
  /** Time per record size and number of processes. @default 0.5 */
  seconds?: number;
  /** Bytes in a record. @default 64, 1 KiB, 64 KiB, 1 MiB */
  sizes?: readonly number[];
  /** @default 16 MiB */
  capacityBytes?: number;
  /** Takes a line of the table at a time. @default standard output */
  print?: (line: string) => void;
}

export interface RingResult {
  producers: number;
  consumers: number;
  /** Bytes in a record. */
  bytes: number;
  /** Consumers read the records in the ring's memory; false: they got copies. */
  inPlace: boolean;
  recordsPerSecond: number;
  bytesPerSecond: number;
  memcpyBytesPerSecond: number;
  /** bytesPerSecond / memcpyBytesPerSecond: at least 0.5 is "within 2x of memcpy". */
  ratio: number;
}

export interface RingReport {
  cpu: string;
  cores: number;
  capacityBytes: number;
  results: RingResult[];
}

type Worker = ChildProcessOf<RingTask, FromRingWorker>;

const warmUpSeconds = 0.1;

export async function benchRing(options: RingOptions = {}): Promise<RingReport> {
  const print = options.print ?? ((line: string) => void process.stdout.write(`${line}\n`));
  const { seconds = 0.5, sizes = [64, 1 << 10, 64 << 10, 1 << 20], capacityBytes = 16 << 20 } = options;
  const pairs =
    options.producers === undefined && options.consumers === undefined
      ? [
          { producers: 1, consumers: 1 },
          { producers: 4, consumers: 4 },
        ]
      : [{ producers: options.producers ?? 1, consumers: options.consumers ?? 1 }];
  const processors = cpus();
  const cpu = processors[0]?.model ?? "unknown processor";
  print(`${cpu}, ${processors.length} cores; ring of ${capacityBytes / 2 ** 20} MiB`);
  print("processes     record  read         records/s      ring GB/s   memcpy GB/s   ratio");
  const results: RingResult[] = [];
  for (const { producers, consumers } of pairs) {
    const workers = await startWorkers(producers + consumers);
    try {
      for (const [bytes, inPlace] of sizes.flatMap((bytes) => [[bytes, true] as const, [bytes, false] as const])) {
        const run = { producers, bytes, inPlace, capacityBytes };
        await measure(workers, { ...run, seconds: warmUpSeconds });
        const before = memcpyRate(bytes, capacityBytes);
        const rate = await measure(workers, { ...run, seconds });
        const memcpyBytesPerSecond = (before + memcpyRate(bytes, capacityBytes)) / 2;
        const bytesPerSecond = rate * bytes;
        const ratio = bytesPerSecond / memcpyBytesPerSecond;
        const result: RingResult = {
          producers,
          consumers,
          bytes,
          inPlace,
          recordsPerSecond: rate,
          bytesPerSecond,
          memcpyBytesPerSecond,
          ratio,
        };
        results.push(result);
        print(line(result));
      }
    } finally {
      for (const worker of workers) worker.process.kill("SIGKILL");
      await Promise.all(workers.map((worker) => worker.ended));
    }
  }
  return { cpu, cores: processors.length, capacityBytes, results };
}

function line(result: RingResult): string {
  const gigabytes = (value: number) => (value / 1e9).toFixed(3);
  return [
    `${result.producers} to ${result.consumers}`.padEnd(10),
    size(result.bytes).padStart(9),
    ` ${result.inPlace ? "in place" : "copied"}`.padEnd(9),
    result.recordsPerSecond.toFixed(0).padStart(12),
    gigabytes(result.bytesPerSecond).padStart(14),
    gigabytes(result.memcpyBytesPerSecond).padStart(13),
    result.ratio.toFixed(2).padStart(7),
  ].join(" ");
}

function size(bytes: number): string {
  if (bytes >= 2 ** 20) return `${bytes / 2 ** 20} MiB`;
  return bytes >= 1024 ? `${bytes / 1024} KiB` : `${bytes} B`;
}

/** Bytes per second of memcpy, over about a tenth of a second. */
function memcpyRate(bytes: number, region: number): number {
  let count = Math.max(16, Math.ceil(region / bytes));
  for (;;) {
    const seconds = shm.memcpySeconds(bytes, region, count);
    if (seconds > 0.05) return (count * bytes) / seconds;
    count = Math.ceil(count * Math.min(100, 0.1 / Math.max(seconds, 1e-6)));
  }
}

async function startWorkers(count: number): Promise<Worker[]> {
  const workers = Array.from({ length: count }, (_, i) =>
    startChild<RingTask, FromRingWorker>(`ring worker ${i}`, ownModule("./ring-worker", import.meta.url)),
  );
  await Promise.all(workers.map((worker) => answer(worker, "ready", 60)));
  return workers;
}

/** Records per second that `producers` of the workers push and the others take, check and acknowledge. */
async function measure(
  workers: readonly Worker[],
  run: { producers: number; bytes: number; seconds: number; inPlace: boolean; capacityBytes: number },
): Promise<number> {
  const { producers, bytes, seconds, inPlace, capacityBytes } = run;
  const ring = Ring.create({ name: segmentName(`bench-${process.pid}`, "ring"), capacityBytes });
  try {
    const start = performance.now();
    const done = workers.map((worker, i) => {
      const finished = answer(worker, "done", seconds + 60);
      worker.send({ role: i < producers ? "producer" : "consumer", ring: ring.name, bytes, seconds, inPlace });
      return finished;
    });
    const pushed = await Promise.all(done.slice(0, producers));
    ring.close();
    const taken = await Promise.all(done.slice(producers));
    const elapsed = (performance.now() - start) / 1e3;
    const records = sum(taken);
    if (records !== sum(pushed)) {
      throw new AgentRLError("SHARED_MEMORY", "the ring lost or repeated records", {
        got: `${records} records taken`,
        expected: `${sum(pushed)}, as many as were pushed`,
      });
    }
    return records / elapsed;
  } finally {
    ring.detach();
    ring.unlink();
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

/** Waits for the worker's next message, which must be of `type`; gives its count of records. */
function answer(worker: Worker, type: "ready" | "done", seconds: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (got: string) => {
      settle();
      reject(
        new AgentRLError("SHARED_MEMORY", `a process of the ring benchmark gave no answer`, {
          where: worker.name,
          got,
        }),
      );
    };
    const timer = setTimeout(() => fail(`nothing for ${seconds} s`), seconds * 1e3);
    const onMessage = (message: FromRingWorker) => {
      if (message.type === "failed") fail(message.message);
      else if (message.type === type) {
        settle();
        resolve(message.type === "done" ? message.records : 0);
      }
    };
    const onExit = () => fail(`it ended: ${worker.lastLines()}`);
    const settle = () => {
      clearTimeout(timer);
      worker.process.off("message", onMessage);
      worker.process.off("exit", onExit);
    };
    worker.process.on("message", onMessage);
    worker.process.on("exit", onExit);
  });
}
