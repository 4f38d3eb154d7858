import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import kg from "../../envs/kg/splits.json" with { type: "json" };
import { trainSchema } from "../../src/config/train.ts";
import { openEnvironment } from "../../src/pipeline/environments.ts";
import { runEvaluation } from "../../src/pipeline/evaluate.ts";
import { assertPanels, panelOf } from "../../src/pipeline/panel.ts";
import { failureOf } from "../failure.ts";

const environment = await openEnvironment({ name: "kg", options: { prompt: "brief" } });

it("is named by the hash of task, split, the tasks' content and the indices in order", () => {
  const panel = panelOf(environment, { split: "eval", episodes: 3 });
  // Written out, with sorted keys, as the page on canonical JSON says.
  const text = `{"indices":[0,1,2],"split":"eval","splitHash":"${kg.splits.eval.sha256}","task":"kg"}`;
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 8);
  expect(panel).toEqual({ name: `kg-eval-${hash}`, hash, indices: [0, 1, 2] });
});

it("is another one with other levels, another length or another split, and the same one again otherwise", () => {
  const hashes = [
    { split: "eval" },
    { split: "eval", episodes: 10 },
    { split: "eval", episodes: 11 },
    { split: "train", episodes: 10 },
    { split: "eval", levels: [1] },
    { split: "eval", levels: [1, 2] },
  ].map((options) => panelOf(environment, options).hash);
  expect(new Set(hashes).size).toBe(hashes.length);
  const all = environment.split("eval").indices.length;
  expect(panelOf(environment, { split: "eval", episodes: all + 5 }).hash).toBe(hashes[0]);
  // Levels name tasks, whose order is the split's.
  expect(panelOf(environment, { split: "eval", levels: [2, 1] }).hash).toBe(hashes[5]);
});

it("an evaluation reports its panel, and refuses to play another than it is asked for", async () => {
  const options = { task: "kg", policy: "expert", seed: 1, episodes: 4 };
  const { hash, name } = panelOf(environment, { split: "eval", episodes: 4 });
  for (const panel of [hash, name]) expect((await runEvaluation({ ...options, panel })).panel).toBe(name);
  const refused = await failureOf(runEvaluation({ ...options, episodes: 5, panel: hash }));
  expect(refused.code).toBe("CONFIG");
  const other = panelOf(environment, { split: "eval", episodes: 5 });
  expect(refused.message).toContain(`another panel: ${other.name}`);
  expect(refused.detail.expected).toBe(hash);
});

it("a run's panels are checked by name before it starts", () => {
  const { hash } = panelOf(environment, { split: "eval", episodes: 7 });
  const config = (panels: Record<string, string>, episodes = 7) =>
    trainSchema.parse({
      model: { path: "m" },
      steps: 1,
      tasks: [{ name: "kg" }],
      evaluation: { every: 1, episodes, panels },
    });
  assertPanels(config({ kg: hash }), [environment]);
  expect(() => assertPanels(config({ kg: hash }, 8), [environment])).toThrow(/another panel: kg-eval-/);
  expect(() => assertPanels(config({ mine: hash }), [environment])).toThrow(/not trained: mine/);
});
