/**
 * Writes the hashes of the generated splits: `npx tsx envs/freeze.ts`. Run it only to freeze a new version of a generator;
 * results measured before and after are then not comparable.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { type FrozenSplit, splitHash } from "../src/env/split-hash.ts";
import { type GeneratedTasks, type Graded, TaskSource } from "../src/env/task-source.ts";
import { alfworldTasks } from "./alfworld/index.ts";
import { dbbenchTasks } from "./dbbench/index.ts";
import { kgTasks } from "./kg/index.ts";
import { osTasks } from "./os/index.ts";
import { webshopTasks } from "./webshop/index.ts";

freeze(alfworldTasks);
freeze(dbbenchTasks);
freeze(kgTasks);
freeze(osTasks);
freeze(webshopTasks);

function freeze<T extends Graded>(tasks: GeneratedTasks<T>): void {
  const path = new URL(`./${tasks.environment}/splits.json`, import.meta.url);
  const { splits } = JSON.parse(readFileSync(path, "utf8")) as { splits: Record<string, FrozenSplit> };
  const source = new TaskSource({ ...tasks, frozen: splits, samples: undefined });
  for (const [name, split] of Object.entries(splits)) split.sha256 = splitHash(source.tasks(name));
  writeFileSync(path, `${JSON.stringify({ splits }, undefined, 2)}\n`);
}
