/**
 * An evaluation panel: the tasks that an evaluation plays, in order. Its name, TASK-SPLIT-HASH, is told in every report, so
 * figures are compared only where the panel is one: the hash is the first 8 hex digits of the SHA-256 over task, split, the
 * split's own hash (of the tasks' content) and the indices in the order that they are played.
 */
import { createHash } from "node:crypto";
import type { TrainConfig } from "../config/train.ts";
import type { Environment } from "../env/environment.ts";
import { canonicalJson } from "../env/split-hash.ts";
import { AgentRLError } from "../errors.ts";
import { levelsOf, ofLevels } from "./task-mix.ts";

export interface Panel {
  name: string;
  /** 8 hex digits. */
  hash: string;
  indices: number[];
}

export interface PanelOptions {
  split: string;
  /** Tasks of these levels only; default all. */
  levels?: readonly number[] | undefined;
  /** At most so many, the first; default all. */
  episodes?: number | undefined;
}

/** @throws AgentRLError CONFIG for a level that the split does not have. */
export function panelOf(environment: Environment, { split, levels, episodes }: PanelOptions): Panel {
  const indices = ofLevels(environment, split, levels).slice(0, episodes);
  const { name: task } = environment;
  const content = { task, split, splitHash: environment.split(split).hash, indices };
  const hash = createHash("sha256").update(canonicalJson(content)).digest("hex").slice(0, 8);
  return { name: `${task}-${split}-${hash}`, hash, indices };
}

/**
 * @param expected a panel's name or its hash; undefined: any.
 * @throws AgentRLError CONFIG when the panel is not the one that is asked for.
 */
export function assertPanel(panel: Panel, expected: string | undefined, where: string): void {
  if (expected === undefined || expected === panel.hash || expected === panel.name) return;
  throw new AgentRLError("CONFIG", `The evaluation would play another panel: ${panel.name}`, {
    where,
    got: `${panel.name}, ${panel.indices.length} tasks`,
    expected,
    hint: "Play the split, levels and number of episodes that the panel was named with; if the tasks themselves changed, name the new panel.",
  });
}

/**
 * What a training run is evaluated on.
 * @throws AgentRLError CONFIG where it does not exist, or is not the panel that the config names.
 */
export function assertPanels({ tasks, evaluation }: TrainConfig, environments: readonly Environment[]): void {
  const { split, episodes, panels = {} } = evaluation;
  const unknown = Object.keys(panels).find((name) => environments.every((environment) => environment.name !== name));
  if (unknown !== undefined) {
    throw new AgentRLError("CONFIG", `A panel is named for a task that is not trained: ${unknown}`, {
      where: `evaluation.panels.${unknown}`,
      got: unknown,
      expected: environments.map((environment) => environment.name).join(", "),
      hint: `Remove evaluation.panels.${unknown}.`,
    });
  }
  for (const [i, environment] of environments.entries()) {
    const panel = panelOf(environment, { split, levels: levelsOf(tasks[i]!), episodes });
    assertPanel(panel, panels[environment.name], `evaluation.panels.${environment.name}`);
  }
}
