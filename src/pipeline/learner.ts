/**
 * The learner process: collects episodes from the ring, trains a batch when the supervisor names its groups, writes the
 * new weights straight into a free slot of the weight board and publishes them.
 */
import { dirname } from "node:path";
import { AgentRLError, briefly } from "../errors.ts";
import { layersComputed } from "../model/layer-done.ts";
import { TraceWriter } from "../observe/traces/writer.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { Ring } from "../shm/ring.ts";
import { connectToSupervisor, failWith } from "./children.ts";
import { every, realClock } from "./clock.ts";
import { collect } from "./collect.ts";
import { writeFailedBatch } from "./failed-batch.ts";
import { LearnerLoop } from "./learner-loop.ts";
import { LearnerState } from "./learner-state.ts";
import { type FromLearner, type GroupBooks, pulseMs, type Setup, type ToLearner } from "./messages.ts";

let loop: LearnerLoop<Trajectory> | null = null;

async function begin(setup: Setup): Promise<void> {
  const state = await LearnerState.open(setup);
  keepTraces(setup, state);
  const begun = new LearnerLoop<Trajectory>({
    trainer: state,
    send,
    goOnWithoutCheckpoint: setup.config.checkpoint.onError === "continue",
    onFailedStep: (error, batch, books) => keepFailure(error, { setup, state, batch, books }),
  });
  loop = begun;
  const ring = Ring.open(setup.ring);
  collect({
    // Read in place: decoding copies the arrays out before the record is acknowledged.
    pop: () => ring.pop({ timeoutMs: 1_000, inPlace: true }),
    into: begun,
    corrupt: (error) => {
      console.error(error.message);
      send({ type: "ignored", fault: "corruptRecords" });
    },
  }).catch(fail);
  every(realClock, pulseMs, () => {
    send({ type: "pulse", progress: begun.handled + layersComputed(), doing: begun.doing });
  });
}

/** What cannot be written is counted; training goes on. */
function keepTraces({ config, checkpoints }: Setup, state: LearnerState): void {
  const { every, maxMb } = config.observe.traces;
  if (every === 0) return;
  const traces = new TraceWriter({
    run: dirname(checkpoints),
    tokenizer: state.tokenizer,
    every,
    maxBytes: maxMb * 2 ** 20,
    step: state.step,
    onFault: (error) => send({ type: "traceFailed", error: briefly(error) }),
  });
  state.onTrained = (step, groups, advantages) => traces.write(step, groups, advantages);
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
const fail = failWith(send);

async function handle(message: ToLearner): Promise<void> {
  if (message.type === "setup") await begin(message.setup);
  else if (message.type === "stop") process.exit(0);
  else await loop!.handle(message);
}

send({ type: "started" });
