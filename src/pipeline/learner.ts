/**
 * The learner process: collects episodes from the ring, trains a batch when the supervisor names its groups, writes the
 * new weights straight into a free slot of the weight board and publishes them.
 */
import { dirname } from "node:path";
import { AgentRLError } from "../errors.ts";
import { decodeTrajectory, NoTrajectory } from "../rl/record.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { CorruptRecord, Ring } from "../shm/ring.ts";
import { connectToSupervisor } from "./children.ts";
import { every, realClock } from "./clock.ts";
import { writeFailedBatch } from "./failed-batch.ts";
import { LearnerLoop } from "./learner-loop.ts";
import { LearnerState } from "./learner-state.ts";
import { type FromLearner, type GroupBooks, type Setup, type ToLearner, toRanges } from "./messages.ts";

const pulseMs = 1_000;

let loop: LearnerLoop<Trajectory> | null = null;

async function begin(setup: Setup): Promise<void> {
  const state = await LearnerState.open(setup);
  const begun = new LearnerLoop<Trajectory>({
    trainer: state,
    send,
    onFailedStep: (error, batch, books) => keepFailure(error, { setup, state, batch, books }),
  });
  loop = begun;
  collect(Ring.open(setup.ring), begun).catch(fail);
  every(realClock, pulseMs, () => {
    send({ type: "pulse", progress: begun.handled + state.passes, doing: begun.doing });
  });
}

/** Drains the ring for as long as the run lasts. */
async function collect(ring: Ring, into: LearnerLoop<Trajectory>): Promise<void> {
  for (;;) {
    // Read in place: decoding copies the arrays out before the record is acknowledged.
    const record = await ring.pop({ timeoutMs: 1_000, inPlace: true }).catch(corrupt);
    if (record === null) return;
    if (record === undefined) continue;
    const bytes = record.bytes.byteLength;
    const trajectory = decoded(record.bytes);
    record.ack();
    if (trajectory !== null) into.accept(trajectory, bytes);
  }
}

function decoded(bytes: Uint8Array): Trajectory | null {
  try {
    return decodeTrajectory(bytes);
  } catch (error) {
    corrupt(error);
    return null;
  }
}

/** The supervisor finds the sample missing when its group ends, and has it played anew. @throws any other error. */
function corrupt(error: unknown): undefined {
  if (!(error instanceof CorruptRecord || error instanceof NoTrajectory)) throw error;
  console.error(error.message);
  send({ type: "ignored", fault: "corruptRecords" });
}

/** Keeps the last good weights, and the batch for `agentrl replay`. @throws the error, with where they are. */
async function keepFailure(
  error: unknown,
  { setup, state, batch, books }: { setup: Setup; state: LearnerState; batch: Trajectory[][]; books: GroupBooks },
): Promise<never> {
  if (!(error instanceof AgentRLError) || error.code !== "NOT_FINITE") throw error;
  const checkpoint = await state.save(books);
  const file = writeFailedBatch(dirname(setup.checkpoints), state.step + 1, {
    config: setup.config,
    taskNames: setup.taskNames,
    checkpoint,
    groups: batch,
  });
  throw new AgentRLError("NOT_FINITE", error.message, {
    where: `step ${state.step + 1}; the weights before it: ${checkpoint}`,
    hint: `agentrl replay ${file} computes the step again`,
    cause: error,
  });
}

const send = connectToSupervisor<ToLearner, FromLearner>((message) => {
  handle(message).catch(fail);
});

async function handle(message: ToLearner): Promise<void> {
  if (message.type === "setup") await begin(message.setup);
  else if (message.type === "stop") process.exit(0);
  else await loop!.handle(message);
}

function fail(error: unknown): void {
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
  const code = error instanceof AgentRLError ? error.code : "";
  send({ type: "failed", message: error instanceof Error ? error.message : String(error), code });
  process.exitCode = 1;
  process.disconnect();
}

process.on("uncaughtException", fail);
send({ type: "started" });
