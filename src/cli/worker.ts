/** `agentrl worker TASK`: hosts an environment's sessions and registers with a controller; see docs/controller.md. */
import { availableParallelism } from "node:os";
import { type Command, Option } from "commander";
import type { EnvironmentOptions } from "../env/registry.ts";
import { controllerUrl } from "../env/wire/controller-url.ts";
import { deploymentOf, taskOfName, wireName } from "../env/worker/task-name.ts";
import { ownModule } from "../own-files.ts";
import { tokenOf } from "./controller.ts";
import { interruptible } from "./interrupt.ts";
import { collect, numberFrom, settingsFrom, wholeNumber } from "./options.ts";

interface WorkerOptions {
  name?: string;
  controller: string;
  self?: string;
  host: string;
  port: number;
  concurrency?: number;
  processes?: number;
  stepTimeout?: number;
  drain: number;
  token?: string;
  data?: string;
  split?: string;
  engine?: string;
  endpoint?: string;
  setting?: string[];
  prompt: "full" | "brief";
}

export function addWorker(program: Command): void {
  program
    .command("worker")
    .description("host an environment's sessions for a controller")
    .argument(
      "<task>",
      "an environment, as dbbench-std (or dbbench, the same) or dbbench-env_train, or a file that defines one",
    )
    .option("--name <name>", "the task's name at the controller; default: <task>, with -std where it has no ending")
    .option(
      "--controller <url>",
      "http://host:port/api, or grpc://host:port to dial out, without an address of one's own",
      "http://localhost:5020/api",
    )
    .option("--self <url>", "this worker's API as the controller reaches it; default: http://localhost:PORT/api")
    .option("--host <address>", "address to listen on; 0.0.0.0 lets other machines in", "127.0.0.1")
    .option("--port <n>", "port of this worker's API", wholeNumber(0), 5021)
    .option("--concurrency <n>", "sessions at once; default: as the task is usually deployed", wholeNumber(1))
    .option("--processes <n>", "processes that share the sessions; default: up to 4, one a core", wholeNumber(1))
    .option("--step-timeout <s>", "seconds for a start or a turn; default: what a task's file says, else 60", seconds)
    .option("--drain <s>", "seconds to let sessions finish after SIGTERM", numberFrom(0), 300)
    .option("--token <secret>", "the controller's token (or set AGENTRL_TOKEN)")
    .option("--data <file>", "tasks in the published format, instead of the generated ones")
    .option("--split <name>", "task list; default: data with --data, train for -env_train, else eval")
    .option("--engine <name>", "what carries out the calls; default: embedded")
    .option("--endpoint <address>", "address of the real engine, where it needs one")
    .option("--setting <key=value>", "a setting of the environment (repeatable)", collect)
    .addOption(new Option("--prompt <kind>", "system prompt").choices(["full", "brief"]).default("full"))
    .action(serve);
}

const seconds = numberFrom(0.001);

async function serve(task: string, options: WorkerOptions): Promise<void> {
  const token = tokenOf(options.token);
  const named = taskOfName(task);
  const environment = environmentOptions(options);
  const log = (line: string) => console.log(`${new Date().toISOString()} ${line}`);
  const { runWorker } = await import("../env/worker/serve.ts");
  await interruptible(async (signal) => {
    const worker = await runWorker({
      name: options.name ?? wireName(task),
      task: {
        environment: named.environment,
        options: environment,
        split: options.split ?? (options.data === undefined ? named.split : "data"),
      },
      controller: controllerUrl(options.controller),
      host: options.host,
      port: options.port,
      self: options.self,
      concurrency: options.concurrency ?? deploymentOf(task).concurrency,
      processes: options.processes ?? Math.min(4, availableParallelism()),
      hostModule: ownModule("./worker-host", import.meta.url),
      stepTimeoutMs: options.stepTimeout === undefined ? undefined : options.stepTimeout * 1000,
      token,
      log,
    });
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    log(`no more sessions; ${worker.table.size} to finish`);
    await worker.drain(options.drain * 1000);
    await worker.close();
  });
}

function environmentOptions(options: WorkerOptions): EnvironmentOptions {
  const { data, engine, endpoint, prompt } = options;
  const settings = settingsFrom(options.setting);
  return {
    prompt,
    ...(data !== undefined && { data }),
    ...(engine !== undefined && { engine }),
    ...(endpoint !== undefined && { endpoint }),
    ...(settings !== undefined && { settings }),
  };
}
