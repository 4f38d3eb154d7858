/**
 * `agentrl bench decode`: the native engine beside llama.cpp, on one file in one run, taking turns: tokens a second of a batch
 * of conversations that decode together, greedily, and how far the two continue alike.
 */
import { NativeDevice } from "../device/native.ts";
import { AgentRLError } from "../errors.ts";
import { Engine } from "../generate/engine.ts";
import { fixedWeights } from "../generate/weight-source.ts";
import type { ModelConfig } from "../model/config.ts";
import { loadModelFolder } from "../model/files.ts";
import { loadCompute } from "../model/load.ts";
import type { ComputeWeights } from "../model/weights.ts";
import { type Decoded, openLlama } from "./llama.ts";
import { median } from "./timing.ts";

export interface DecodeOptions {
  /** GGUF file that both sides read. */
  model: string;
  /** Folder in which node-llama-cpp is installed. */
  llama: string;
  /** How our matrices are kept. @default f16 */
  weights?: "f32" | "f16" | "bf16";
  /** Conversations at once. @default [1, 8, 32] */
  batches?: number[];
  /** @default 2 */
  threads?: number;
  /** Tokens of a prompt. @default 128 */
  prompt?: number;
  /** Tokens decoded of each conversation. @default 64 */
  tokens?: number;
  /** Turns of each side. @default 5 */
  rounds?: number;
  print?: (line: string) => void;
}

export interface DecodeResult {
  batch: number;
  /** Median tokens/s of decoding, over the batch. */
  ours: number;
  theirs: number;
  /** ours / theirs: above 1 we are faster. */
  ratio: number;
  /** Median rows/s of the prompts. */
  prefill: { ours: number; theirs: number };
  /** Leading tokens in which a continuation of ours equals theirs, mean over the batch. */
  equalTokens: number;
}

export async function benchDecode(options: DecodeOptions): Promise<{ device: string; results: DecodeResult[] }> {
  const print = options.print ?? ((line: string) => void process.stdout.write(`${line}\n`));
  const { batches = [1, 8, 32], threads = 2, prompt = 128, tokens = 64, rounds = 5, weights: kind = "f16" } = options;
  const device = new NativeDevice({ threads, weights: kind });
  const model = loadModelFolder(options.model);
  const { config } = model;
  const weights = loadCompute(device, model, "weights");
  model.tensors.close();
  const contextLimit = prompt + tokens + 2;
  if (contextLimit > config.maxPositions) {
    throw new AgentRLError("USAGE", "The prompt and the tokens to decode do not fit the model.", {
      got: `${prompt} + ${tokens} tokens`,
      expected: `fewer than max_position_embeddings = ${config.maxPositions}`,
      hint: "Give a smaller --prompt or --tokens.",
    });
  }
  const llama = await openLlama({ folder: options.llama, model: options.model, threads });
  print(`${device.name}, weights ${kind}, beside llama.cpp (node-llama-cpp) on ${options.model}`);
  print(`prompts of ${prompt} tokens, ${tokens} decoded greedily, in turns, median of ${rounds}`);
  print("batch  ours tok/s  llama.cpp tok/s  ratio   prefill ours  llama.cpp   alike");
  const results: DecodeResult[] = [];
  for (const batch of batches) {
    const prompts = Array.from({ length: batch }, (_, i) => promptOf(config, prompt, i));
    const ours: Decoded[] = [];
    const theirs: Decoded[] = [];
    // The first turn warms up.
    for (let round = 0; round <= rounds; round++) {
      const mine = await decode({ device, config, weights, prompts, tokens, contextLimit });
      const peer = await llama.decode(prompts, tokens, contextLimit);
      if (round === 0) continue;
      ours.push(mine);
      theirs.push(peer);
    }
    const result = compareTurns(batch, prompt, ours, theirs);
    results.push(result);
    const cells = [
      String(batch).padStart(5),
      result.ours.toFixed(1).padStart(11),
      result.theirs.toFixed(1).padStart(16),
      `${result.ratio.toFixed(2)}x`.padStart(6),
      result.prefill.ours.toFixed(0).padStart(14),
      result.prefill.theirs.toFixed(0).padStart(10),
      `${result.equalTokens.toFixed(0)}/${tokens}`.padStart(7),
    ];
    print(cells.join(" "));
  }
  await llama.close();
  device.destroy();
  return { device: device.name, results };
}

/** Varied ids, the same in every run; the last tells the conversations of a batch apart. */
function promptOf(config: ModelConfig, length: number, which: number): number[] {
  const id = (i: number) => 100 + ((i * 37 + which * 1009) % (config.vocabSize - 200));
  return Array.from({ length }, (_, i) => id(i));
}

async function decode(args: {
  device: NativeDevice;
  config: ModelConfig;
  weights: ComputeWeights;
  prompts: readonly number[][];
  tokens: number;
  contextLimit: number;
}): Promise<Decoded> {
  const { device, config, weights, prompts, tokens, contextLimit } = args;
  const engine = new Engine({
    device,
    config,
    weights: fixedWeights(weights),
    maxConversations: prompts.length,
    contextLimit,
    maxRows: 512,
  });
  const sampling = { temperature: 0, topK: 0, topP: 1, minP: 0 };
  const started = performance.now();
  const turn = { stopTokens: [], sampling, seed: { group: 0, sample: 0, key: 0 } };
  const conversations = await Promise.all(
    prompts.map(async (prompt) => {
      const conversation = engine.open(prompt);
      await conversation.generate({ ...turn, maxTokens: 1 });
      return conversation;
    }),
  );
  const decoding = performance.now();
  await Promise.all(conversations.map((conversation) => conversation.generate({ ...turn, maxTokens: tokens })));
  const ended = performance.now();
  const continuations = conversations.map(({ record }, i) => {
    const from = prompts[i]!.length;
    return [...record.tokens.slice(from, from + tokens + 1)];
  });
  await engine.destroy();
  return { tokens: continuations, prefillMs: decoding - started, decodeMs: ended - decoding };
}

function compareTurns(batch: number, prompt: number, ours: Decoded[], theirs: Decoded[]): DecodeResult {
  const perSecond = (turns: Decoded[], rows: number, ms: (turn: Decoded) => number) =>
    median(turns.map((turn) => (1000 * rows) / ms(turn)));
  const decoded = batch * (ours[0]!.tokens[0]!.length - 1);
  const [mine, peer] = [ours, theirs].map((turns) => perSecond(turns, decoded, (turn) => turn.decodeMs)) as [
    number,
    number,
  ];
  const equal = ours[0]!.tokens.map((continuation, i) => {
    const other = theirs[0]!.tokens[i]!;
    const differs = continuation.findIndex((token, at) => token !== other[at]);
    return Math.min(differs === -1 ? continuation.length : differs, continuation.length - 1);
  });
  return {
    batch,
    ours: mine,
    theirs: peer,
    ratio: mine / peer,
    prefill: {
      ours: perSecond(ours, batch * prompt, (turn) => turn.prefillMs),
      theirs: perSecond(theirs, batch * prompt, (turn) => turn.prefillMs),
    },
    equalTokens: equal.reduce((sum, one) => sum + one, 0) / equal.length,
  };
}
