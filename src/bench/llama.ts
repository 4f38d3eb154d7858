/** llama.cpp, the peer that `agentrl bench decode` measures beside: node-llama-cpp from a folder in which the user has installed it. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { AgentRLError } from "../errors.ts";

const version = "3.21.1";

/** What the benchmark uses of the package. */
interface LlamaPackage {
  getLlama(options: {
    gpu: false;
    build: "never";
    maxThreads: number;
    logLevel: "error";
  }): Promise<{ cpuMathCores: number; loadModel(options: { modelPath: string }): Promise<LlamaFile> }>;
}

interface LlamaFile {
  createContext(options: {
    contextSize: number;
    batchSize: number;
    sequences: number;
    threads: number;
    experimentalKvCacheKeyType?: "F32";
    experimentalKvCacheValueType?: "F32";
  }): Promise<LlamaContext>;
  dispose(): Promise<void>;
}

interface LlamaContext {
  getSequence(): { evaluate(tokens: number[], options: object): AsyncIterable<number> };
  dispose(): Promise<void>;
}

/** What one side did with a batch of prompts: its greedy continuations, and when it did it. */
export interface Decoded {
  tokens: number[][];
  /** Until every prompt has its first token. */
  prefillMs: number;
  /** From there to the end. */
  decodeMs: number;
}

export interface Llama {
  decode(prompts: readonly number[][], tokens: number, contextLimit: number): Promise<Decoded>;
  close(): Promise<void>;
}

/** @throws AgentRLError USAGE when the folder does not hold the package. */
export async function openLlama(options: {
  folder: string;
  model: string;
  threads: number;
  /** f16 is llama.cpp's own choice. @default f16 */
  kvCache?: "f16" | "f32";
}): Promise<Llama> {
  const { folder, model: modelPath, threads, kvCache = "f16" } = options;
  const entry = join(resolve(folder), "node_modules", "node-llama-cpp", "dist", "index.js");
  if (!existsSync(entry)) {
    throw new AgentRLError("USAGE", "node-llama-cpp is not installed in the folder given", {
      where: resolve(folder),
      got: "no node_modules/node-llama-cpp",
      hint: `mkdir -p ${folder} && cd ${folder} && npm install node-llama-cpp@${version}`,
    });
  }
  const { getLlama } = (await import(pathToFileURL(entry).href)) as LlamaPackage;
  const llama = await getLlama({ gpu: false, build: "never", maxThreads: threads, logLevel: "error" });
  const file = await llama.loadModel({ modelPath: resolve(modelPath) });
  return {
    async decode(prompts, tokens, contextLimit) {
      const context = await file.createContext({
        contextSize: contextLimit,
        batchSize: 512,
        sequences: prompts.length,
        threads,
        ...(kvCache === "f32" && { experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32" }),
      });
      const sequences = prompts.map(() => context.getSequence());
      const firsts: number[] = [];
      const started = performance.now();
      const continuations = await Promise.all(
        prompts.map(async (prompt, i) => {
          const got: number[] = [];
          // The end of a text does not end the measurement: all sequences stay in the batch.
          for await (const token of sequences[i]!.evaluate([...prompt], { temperature: 0, yieldEogToken: true })) {
            if (got.length === 0) firsts.push(performance.now());
            if (got.push(token) > tokens) break;
          }
          return got;
        }),
      );
      const ended = performance.now();
      const decoding = Math.max(...firsts);
      await context.dispose();
      return { tokens: continuations, prefillMs: decoding - started, decodeMs: ended - decoding };
    },
    close: () => file.dispose(),
  };
}
