/** Real processes, with a ring and a weight board between them that are made anew for every attempt. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { ownModule } from "../own-files.ts";
import { Ring } from "../shm/ring.ts";
import { segmentName } from "../shm/segment.ts";
import { WeightBoard } from "../shm/weight-board.ts";
import { latestCheckpoint, readState } from "./checkpoint.ts";
import { type Child, startChild } from "./children.ts";
import { realClock } from "./clock.ts";
import type { FromLearner, FromRollout, Setup, ToLearner, ToRollout } from "./messages.ts";
import type { RunPlan } from "./plan.ts";
import { type RunDevices, rolloutDevice } from "./run-devices.ts";
import type { AttemptHost, RunHost, SavedBooks } from "./run-host.ts";

/** What does not change from attempt to attempt. */
export interface RunSetup
  extends Omit<Setup, "device" | "ring" | "board" | "frozen" | "modelFolder" | "firstVersion" | "resume"> {
  devices: RunDevices;
  /** Of the frozen weights in shared memory; 0 when every parameter is trained. */
  frozenBytes: number;
}

type SegmentSizes = Pick<RunPlan, "ringBytes" | "boardSlots" | "boardSlotBytes">;

export class ProcessHost implements RunHost {
  readonly clock = realClock;
  readonly #setup: RunSetup;
  readonly #plan: SegmentSizes;

  constructor(setup: RunSetup, plan: SegmentSizes) {
    this.#setup = setup;
    this.#plan = plan;
  }

  latest(): SavedBooks | null {
    const folder = latestCheckpoint(this.#setup.checkpoints);
    return folder === null ? null : { folder, state: readState(folder) };
  }

  open(from: SavedBooks | null): AttemptHost {
    const run = `${process.pid}-${randomBytes(4).toString("hex")}`;
    const { ringBytes, boardSlots, boardSlotBytes } = this.#plan;
    const ring = Ring.create({ name: segmentName(run, "ring"), capacityBytes: ringBytes });
    const board = WeightBoard.create({ name: segmentName(run, "board"), slots: boardSlots, bytes: boardSlotBytes });
    const { devices, frozenBytes, ...always } = this.#setup;
    const frozen =
      frozenBytes > 0 ? WeightBoard.create({ name: segmentName(run, "frozen"), slots: 1, bytes: frozenBytes }) : null;
    const setup: Omit<Setup, "device"> = {
      ...always,
      ring: ring.name,
      board: board.name,
      frozen: frozen?.name ?? null,
      modelFolder: from === null ? this.#setup.config.model.path : join(from.folder, "model"),
      firstVersion: from?.state.step ?? 0,
      resume: from?.folder ?? null,
    };
    return {
      learner: () =>
        begun(startChild<ToLearner, FromLearner>("learner", entry("learner")), { ...setup, device: devices.learner }),
      rollout: (worker) =>
        begun(startChild<ToRollout, FromRollout>(`rollout ${worker}`, entry("rollout")), {
          ...setup,
          device: rolloutDevice(devices, worker),
        }),
      reclaim: () => ring.reclaim(),
      close: () => {
        ring.close();
        ring.unlink();
        ring.detach();
        for (const each of [board, frozen]) {
          each?.close();
          each?.unlink();
        }
      },
    };
  }
}

function begun<To, From>(child: Child<To | { type: "setup"; setup: Setup }, From>, setup: Setup): Child<To, From> {
  child.send({ type: "setup", setup });
  return child;
}

function entry(name: "learner" | "rollout"): URL {
  return ownModule(`./${name}`, import.meta.url);
}
