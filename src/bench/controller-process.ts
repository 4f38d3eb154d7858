/** One process of `agentrl bench controller`: the controller, or a worker of it. */
import { serveController } from "../env/controller/serve.ts";
import { runWorker } from "../env/worker/serve.ts";
import { ownModule } from "../own-files.ts";
import { connectToSupervisor } from "../pipeline/children.ts";

export type ControllerProcessTask =
  | { role: "controller" }
  | { role: "worker"; controller: string; concurrency: number; processes: number; latencyMs: number; turns: number };

export type FromControllerProcess = { type: "listening"; url: string } | { type: "failed"; message: string };

async function start(task: ControllerProcessTask): Promise<string> {
  if (task.role === "controller") {
    return (await serveController({ host: "127.0.0.1", port: 0, version: "bench" })).url;
  }
  const { controller, concurrency, processes, latencyMs, turns } = task;
  const worker = await runWorker({
    name: "latency",
    task: { environment: "latency", options: { settings: { latencyMs, turns } }, split: "eval" },
    controller: `${controller}/api`,
    host: "127.0.0.1",
    port: 0,
    concurrency,
    processes,
    hostModule: ownModule("./latency-host", import.meta.url),
    stepTimeoutMs: 60_000,
  });
  return worker.url!;
}

const send = connectToSupervisor<ControllerProcessTask, FromControllerProcess>(async (task) => {
  try {
    send({ type: "listening", url: await start(task) });
  } catch (error) {
    send({ type: "failed", message: error instanceof Error ? error.message : String(error) });
  }
});
