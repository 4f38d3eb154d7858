/**
 * Sampling from the head. The logits of a block of rows are held for the whole vocabulary, and the row's softmax is that
 * of headLogProb, kernel by kernel. Then what top-k, top-p and min-p cut is found, the probability that is kept is summed
 * by chunk, and a token is drawn by inverse transform. Nothing is read back.
 */
import type { HeadSampleArgs } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import { checkHead, chunksOf, headConstants, LOGITS_BUDGET, logits, rowBlocks } from "./head-logits.ts";
import { gatherTargets, mergeChunks, normalize, partialsOf, reduceChunks } from "./head-softmax.ts";

export function headSample(gpu: Gpu, x: HeadSampleArgs, budget = LOGITS_BUDGET): void {
  const head = checkHead("headSample", x);
  const { rows, vocab } = x;
  const temperatures = operand("headSample", "temperatures", x.temperatures, "f32", rows);
  const topK = operand("headSample", "topK", x.topK, "u32", rows);
  const topP = operand("headSample", "topP", x.topP, "f32", rows);
  const minP = operand("headSample", "minP", x.minP, "f32", rows);
  const seeds = operand("headSample", "seeds", x.seeds, "u32", 4 * rows);
  const tokens = operand("headSample", "tokens", x.tokens, "u32", rows);
  const logProbs = operand("headSample", "logProbs", x.logProbs, "f32", rows);
  const keptMass = operand("headSample", "keptMass", x.keptMass, "f32", rows);

  const chunks = chunksOf(vocab);
  const all = { first: 0, count: vocab };
  const lse = gpu.scratch("sample.lse", rows);
  const entropies = gpu.scratch("sample.entropies", rows);
  for (const block of rowBlocks(rows, Math.max(1, Math.floor(budget / vocab)))) {
    const some = gpu.scratch("head.logits", block.count * vocab);
    const partials = partialsOf(gpu, block, vocab);
    const cuts = gpu.scratch("sample.cuts", block.count * 2, "u32");
    logits(gpu, head, block, all, some, vocab);
    reduceChunks(gpu, some, temperatures, partials, block, all, vocab);
    mergeChunks(gpu, partials, lse, entropies, block, vocab);
    const shared = { constants: headConstants, params: { first_row: block.first, vocab, chunks } };
    gpu.recorder.dispatch({
      kernel: "sample_cut",
      ...shared,
      bindings: [some, temperatures, lse, partials, topK, topP, minP, cuts],
      groups: [block.count],
    });
    gpu.recorder.dispatch({
      kernel: "sample_mass",
      ...shared,
      bindings: [some, temperatures, lse, cuts, partials],
      groups: [chunks, block.count],
    });
    gpu.recorder.dispatch({
      kernel: "sample_draw",
      ...shared,
      bindings: [some, temperatures, lse, cuts, partials, seeds, tokens, keptMass],
      groups: [block.count],
    });
    gatherTargets(gpu, some, temperatures, tokens, logProbs, block, all);
    normalize(gpu, lse, logProbs, block);
  }
}
