/** `agentrl serve MODEL`: OpenAI's chat completions from the engine that trains; see docs/serving.md. */
import { availableParallelism } from "node:os";
import type { Command } from "commander";
import { type DeviceSection, nativeSection, webgpuSection } from "../config/sections.ts";
import { addDevice } from "./device-option.ts";
import { interruptible } from "./interrupt.ts";
import { numberFrom, secretFrom, wholeNumber } from "./options.ts";

interface ServeOptions {
  host: string;
  port: number;
  name?: string;
  context?: number;
  maxConversations: number;
  maxWaiting: number;
  maxBodyMb: number;
  threads?: number;
  device?: DeviceSection["device"];
  apiKeyEnv?: string;
}

const example = `
Example:
  agentrl serve models/tiny --port 8080
  agentrl eval --task kg --policy http://127.0.0.1:8080/v1#tiny`;

export function addServe(program: Command): void {
  const command = program
    .command("serve")
    .argument("<model>", "model folder, adapter folder, run (its newest checkpoint), GGUF file, or a name on the Hub")
    .description("serve a model as OpenAI-compatible chat completions")
    .option("--host <address>", "address to listen on; beyond this machine only with --api-key-env", "127.0.0.1")
    .option("--port <n>", "port; 0 takes a free one", wholeNumber(0), 8080)
    .option("--name <name>", "the model's name for clients; default: the last part of <model>, or its name on the Hub")
    .option("--context <n>", "tokens of a conversation; default: the model's own limit, at most 4096", wholeNumber(1))
    .option("--max-conversations <n>", "answers computed at once", wholeNumber(1), 8)
    .option("--max-waiting <n>", "requests that may wait for a place; the next gets 503", wholeNumber(0), 64)
    .option("--max-body-mb <n>", "largest request body, in MiB", numberFrom(0.001), 4)
    .option("--threads <n>", "compute threads; all cores by default", wholeNumber(1))
    .option("--api-key-env <name>", "variable that holds the key that clients must send");
  addDevice(command).addHelpText("after", example).action(serve);
}

async function serve(place: string, options: ServeOptions): Promise<void> {
  const { host, port, maxConversations, maxWaiting, maxBodyMb, apiKeyEnv } = options;
  const apiKey = apiKeyEnv === undefined ? undefined : secretFrom(apiKeyEnv, "agentrl serve");
  const { assertGuarded, serveModel } = await import("../serve/serve.ts");
  // Before a model is read for minutes.
  assertGuarded(host, apiKey);
  const { openServed } = await import("../serve/open.ts");
  await interruptible(async (signal) => {
    const model = await openServed(place, {
      maxConversations,
      contextLimit: options.context,
      threads: options.threads ?? availableParallelism(),
      device: {
        device: options.device ?? "auto",
        native: nativeSection.parse({}),
        webgpu: webgpuSection.parse({}),
      },
    });
    try {
      signal.throwIfAborted();
      const name = options.name ?? model.name;
      const log = (line: string) => console.error(`${new Date().toISOString()} ${line}`);
      const maxBodyBytes = Math.round(maxBodyMb * 2 ** 20);
      const guarded = apiKey === undefined ? {} : { apiKey };
      const running = await serveModel(model, {
        ...{ host, port, name, maxConversations, maxWaiting, maxBodyBytes, log },
        ...guarded,
      });
      const { contextLimit } = model.engine;
      console.log(`${name} on ${running.url} (context ${contextLimit}, ${maxConversations} answers at once)`);
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      console.log("stopping: what runs is finished first; once more stops at once");
      await running.stop();
    } catch (error) {
      if (!(signal.aborted && error === signal.reason)) throw error;
    } finally {
      await model.close();
    }
  });
}
