/** The thread's side of wandb.ts. */
import { parentPort, workerData } from "node:worker_threads";
import wandb from "@wandb/sdk";
import type { FromWandb, ToWandb, WandbSetup } from "./wandb.ts";

/** Lines that may wait for the server to say that the run has begun. */
const mostWaiting = 10_000;

const send = (message: FromWandb) => parentPort!.postMessage(message);
const { project, entity, name, settings: config } = workerData as WandbSetup;
const waiting: Extract<ToWandb, { type: "log" }>[] = [];
let finishing = false;
/** The package numbers rows, and holds one back whose step is behind their number: after a crash the run goes back. */
let rows = 0;

const begun = wandb
  .init({
    project,
    ...(entity !== undefined && { entity }),
    ...(name !== undefined && { name }),
    config,
    settings: {
      apiKey: process.env.WANDB_API_KEY!,
      baseUrl: process.env.WANDB_BASE_URL || "https://api.wandb.ai",
      silent: true,
    },
  })
  .then((run) => {
    send({ type: "begun", url: run.url() });
    return run;
  });
type Run = Awaited<typeof begun>;
let run: Run | undefined;

function log({ step, scalars }: Extract<ToWandb, { type: "log" }>): void {
  if (run === undefined) {
    if (waiting.length === mostWaiting)
      send({ type: "fault", message: "the server does not answer: metrics are left out" });
    else waiting.push({ type: "log", step, scalars });
    return;
  }
  // An evaluation goes with the next row.
  if (step === null) run.log(scalars, run.step, false);
  else run.log(scalars, Math.max(step, rows++));
}

parentPort!.on("message", (message: ToWandb) => {
  if (message.type === "log") {
    log(message);
    return;
  }
  finishing = true;
  begun
    .then((run) => run.finish(0))
    .then(() => send({ type: "finished" }))
    .catch((error: unknown) => send({ type: "fault", message: String(error) }));
});

begun.then(
  (opened) => {
    run = opened;
    for (const line of waiting.splice(0)) log(line);
  },
  (error: unknown) => {
    send({ type: "fault", message: error instanceof Error ? error.message : String(error) });
    if (finishing) send({ type: "finished" });
  },
);
