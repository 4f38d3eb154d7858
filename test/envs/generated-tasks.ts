/** What holds for the generated tasks of every environment. */
import { expect, test } from "vitest";
import type { Environment } from "../../src/env/environment.ts";
import { canonicalJson } from "../../src/env/split-hash.ts";
import { type GeneratedTasks, type Graded, TaskSource } from "../../src/env/task-source.ts";

/** Registers the tests; gives the tasks for those that an environment has of its own. */
export function testGeneratedTasks<T extends Graded>(
  environment: Environment,
  tasks: GeneratedTasks<T>,
): { evalTasks: T[]; trainTasks: T[] } {
  const source = new TaskSource({ ...tasks, samples: undefined });
  const evalTasks = [...source.tasks("eval")];
  const trainTasks = [...source.tasks("train")];

  test("the splits are the frozen ones", () => {
    expect(environment.split("train")).toMatchObject({ name: "train", indices: { length: 4000 } });
    expect(environment.split("eval")).toMatchObject({ name: "eval", indices: { length: 200 } });
    for (const name of ["dev", "toString", "data"]) expect(() => environment.split(name)).toThrow(/no split/);
    for (const index of [-1, 200, 0.5, Number.NaN]) {
      expect(() => environment.expert!("eval", index, 0)).toThrow(/0 to 199/);
    }
  });

  test("a task is a pure function of split and index", () => {
    for (const index of [0, 4, 7, 1234]) {
      expect(canonicalJson(tasks.generate("train", index, 0))).toBe(canonicalJson(tasks.generate("train", index, 0)));
    }
    expect(canonicalJson(source.task("train", 1234))).toBe(canonicalJson(trainTasks[1234]));
  });

  test("no prompt of eval occurs in train", () => {
    const prompts = new Set(evalTasks.map(tasks.key));
    expect(trainTasks.filter((task) => prompts.has(tasks.key(task)))).toEqual([]);
  });

  test("levels are even", () => {
    for (const level of [1, 2, 3, 4, 5]) {
      const { indices } = environment.split("eval");
      expect(indices.filter((index) => environment.level("eval", index) === level)).toHaveLength(40);
    }
  });

  return { evalTasks, trainTasks };
}

/** Experts that take turns, session by session, all win. */
export function testInterleavedSessions(environment: Environment): void {
  test("32 interleaved sessions do not disturb each other", async () => {
    const indices = Array.from({ length: 32 }, (_, index) => index);
    const sessions = await Promise.all(indices.map((index) => environment.start("train", index, 0)));
    const experts = indices.map((index) => environment.expert!("train", index, 0));
    const rewards = new Array<number>(32).fill(0);
    const open = new Set(indices);
    while (open.size > 0) {
      await Promise.all(
        [...open].map(async (index) => {
          const result = await sessions[index]!.step(experts[index]!.act([]));
          rewards[index]! += result.reward;
          if (result.done) open.delete(index);
        }),
      );
    }
    expect(rewards).toEqual(indices.map(() => 1));
  });
}
