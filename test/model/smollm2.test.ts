/**
 * A real pretrained model against transformers (test/golden/make-smollm2.py), with
 *
 *     AGENTRL_SMOLLM2=FOLDER/SmolLM2-135M-Instruct.Q4_1.gguf
 *
 * a file that scripts/fetch-smollm2.mjs downloads; without it the tests are skipped and say so.
 */
import { existsSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NativeDevice } from "../../src/device/native.ts";
import { Engine } from "../../src/generate/engine.ts";
import { fixedWeights } from "../../src/generate/weight-source.ts";
import type { ModelConfig } from "../../src/model/config.ts";
import { loadModelFolder } from "../../src/model/files.ts";
import { loadCompute } from "../../src/model/load.ts";
import { TrainPass } from "../../src/model/train-pass.ts";

const file = process.env.AGENTRL_SMOLLM2 ?? "";
const golden = JSON.parse(readFileSync(new URL("../golden/smollm2.json", import.meta.url), "utf8")) as {
  prompts: number[][];
  greedy: number[][];
  text: number[];
  loss: number;
};
if (!existsSync(file)) {
  console.info("SmolLM2: skipped, AGENTRL_SMOLLM2 names no file (scripts/fetch-smollm2.mjs downloads it)");
}

describe.runIf(existsSync(file))("SmolLM2-135M-Instruct", () => {
  const device = new NativeDevice({ threads: 2 });
  afterAll(() => device.destroy());
  // Vitest runs this body also where the suite is skipped.
  let config: ModelConfig;
  let weights: ReturnType<typeof loadCompute>;
  beforeAll(() => {
    const model = loadModelFolder(file);
    config = model.config;
    weights = loadCompute(device, model, "weights");
    model.tensors.close();
  });

  it("continues 20 prompts greedily with transformers' 64 tokens", async () => {
    const { prompts, greedy } = golden;
    const engine = new Engine({
      device,
      config,
      weights: fixedWeights(weights),
      maxConversations: prompts.length,
      contextLimit: 128,
    });
    const sampling = { temperature: 0, topK: 0, topP: 1, minP: 0 };
    const seed = { group: 0, sample: 0, key: 0 };
    const got = await Promise.all(
      prompts.map(async (prompt) => {
        const conversation = engine.open(prompt);
        await conversation.generate({ stopTokens: [], maxTokens: 64, sampling, seed });
        return [...conversation.record.tokens.slice(prompt.length, prompt.length + 64)];
      }),
    );
    expect(got).toEqual(greedy);
    await engine.destroy();
  }, 300_000);

  it("has transformers' loss on a fixed text", async () => {
    const { text, loss } = golden;
    const rows = text.length;
    const pass = new TrainPass(device, config, { maxRows: rows, maxScored: rows });
    const { logProbs } = await pass.forward(weights, {
      tokens: Uint32Array.from(text),
      offsets: Uint32Array.of(0, rows),
      scoredRows: Uint32Array.from({ length: rows - 1 }, (_, i) => i),
      targets: Uint32Array.from(text.slice(1)),
      temperatures: new Float32Array(rows - 1).fill(1),
    });
    const own = -logProbs.reduce((sum, logProb) => sum + logProb, 0) / (rows - 1);
    console.info(`perplexity ${Math.exp(own)}, transformers' ${Math.exp(loss)}`);
    expect(Math.exp(own) / Math.exp(loss)).toBeCloseTo(1, 5);
  }, 300_000);
});
