/**
 * The learner process: collects episodes from the ring, trains a batch when the supervisor names its groups, writes the
 * new weights straight into a free slot of the weight board and publishes them.
 */
import { dirname } from "node:path";
import { AgentRLError } from "../errors.ts";
import { sampledCount } from "../rl/batch.ts";
import { decodeTrajectory } from "../rl/record.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { Ring } from "../shm/ring.ts";
import { connectToSupervisor } from "./children.ts";
import { writeFailedBatch } from "./failed-batch.ts";
import { LearnerState } from "./learner-state.ts";
import { type FromLearner, fromRanges, type GroupBooks, type Setup, type ToLearner, toRanges } from "./messages.ts";

let setup: Setup | null = null;
let state: LearnerState | null = null;
/** As the last step left them. */
let books: GroupBooks = { trainedGroups: [] };
const groups = new Map<number, Map<number, Trajectory>>();
const trained = new Set<number>();

/** Drains the ring for as long as the run lasts. */
async function collect({ ring: name }: Setup): Promise<void> {
  const ring = Ring.open(name);
  for (;;) {
    // Read in place: decoding copies the arrays out before the record is acknowledged.
    const record = await ring.pop({ timeoutMs: 1_000, inPlace: true });
    if (record === null) return;
    if (record === undefined) continue;
    const trajectory = decodeTrajectory(record.bytes);
    const { group, sample } = trajectory;
    // A rollout process that died after delivering has its group issued again: the first copy counts.
    if (!trained.has(group)) {
      const samples = groups.get(group) ?? new Map<number, Trajectory>();
      if (!samples.has(sample)) samples.set(sample, trajectory);
      groups.set(group, samples);
    }
    record.ack();
    const tokens = sampledCount(trajectory);
    send({ type: "received", group, sample, reward: state!.rewardOf(trajectory), tokens });
  }
}

function batchOf(numbers: readonly number[]): Trajectory[][] {
  return numbers.map((number) => {
    const samples = groups.get(number);
    if (samples === undefined) {
      throw new AgentRLError("PIPELINE", "A group to train has no samples", { where: `group ${number}` });
    }
    return [...samples.values()].sort((a, b) => a.sample - b.sample);
  });
}

async function handle(message: ToLearner): Promise<void> {
  if (message.type === "setup") {
    setup = message.setup;
    state = await LearnerState.open(setup);
    books = state.books;
    for (const group of fromRanges(books.trainedGroups)) trained.add(group);
    collect(setup).catch(fail);
    send({ type: "ready", step: state.step, trainedGroups: books.trainedGroups });
  } else if (message.type === "train") {
    const batch = batchOf(message.groups);
    const spares = batchOf(message.spares);
    const metrics = await state!.train(batch, spares).catch((error) => keepFailure(error, batch));
    for (const group of [...message.groups, ...message.spares]) {
      groups.delete(group);
      trained.add(group);
    }
    books = message.books;
    if (message.checkpoint) await save();
    send({ type: "trained", groups: message.groups, metrics });
  } else if (message.type === "abandon") {
    groups.delete(message.group);
    trained.add(message.group);
  } else if (message.type === "checkpoint") {
    books = message.books;
    await save();
  } else {
    process.exit(0);
  }
}

/** Keeps the last good weights, and the batch for `agentrl replay`. @throws the error, with where they are. */
async function keepFailure(error: unknown, batch: Trajectory[][]): Promise<never> {
  if (!(error instanceof AgentRLError) || error.code !== "NOT_FINITE") throw error;
  const checkpoint = await state!.save({ ...books, trainedGroups: toRanges(trained) });
  const file = writeFailedBatch(dirname(setup!.checkpoints), state!.step + 1, {
    config: setup!.config,
    taskNames: setup!.taskNames,
    checkpoint,
    groups: batch,
  });
  throw new AgentRLError("NOT_FINITE", error.message, {
    where: `step ${state!.step + 1}; the weights before it: ${checkpoint}`,
    hint: `agentrl replay ${file} computes the step again`,
    cause: error,
  });
}

async function save(): Promise<void> {
  const folder = await state!.save(books);
  send({ type: "saved", step: state!.step, folder });
}

const send = connectToSupervisor<ToLearner, FromLearner>((message) => {
  handle(message).catch(fail);
});

function fail(error: unknown): void {
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
  const code = error instanceof AgentRLError ? error.code : "";
  send({ type: "failed", message: error instanceof Error ? error.message : String(error), code });
  process.exitCode = 1;
  process.disconnect();
}

process.on("uncaughtException", fail);
send({ type: "started" });
