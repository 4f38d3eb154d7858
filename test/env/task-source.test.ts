/** Generated splits: surveyed once a process, and refused when their generator is another. */
import { expect, test } from "vitest";
import { splitHash } from "../../src/env/split-hash.ts";
import { TaskSource } from "../../src/env/task-source.ts";

const draw = (split: string, index: number) => ({ prompt: `${split} ${index}`, level: 1 + (index % 3) });
const key = ({ prompt }: ReturnType<typeof draw>) => prompt;
const all = (split: string, count: number) => Array.from({ length: count }, (_, index) => draw(split, index));
const frozen = {
  train: { count: 30, sha256: splitHash(all("train", 30)) },
  eval: { count: 6, sha256: splitHash(all("eval", 6)) },
};

test("a second environment takes the hash and levels that the first one found, and generates what is played", () => {
  let generated = 0;
  const generate = (split: string, index: number) => {
    generated++;
    return draw(split, index);
  };
  const open = () =>
    new TaskSource<ReturnType<typeof draw>>({ environment: "test", generate, key, frozen, samples: undefined });
  const first = open();
  const { hash, indices } = first.split("train");
  expect([hash, indices.length, indices[29]]).toEqual([frozen.train.sha256, 30, 29]);
  expect(generated).toBeGreaterThanOrEqual(30);

  generated = 0;
  const second = open();
  expect(second.split("train")).toEqual(first.split("train"));
  expect(second.split("train").indices.map((index) => second.level("train", index))).toEqual(
    all("train", 30).map(({ level }) => level),
  );
  expect(generated).toBe(0);
  expect(second.task("train", 7)).toEqual(draw("train", 7));
  for (const index of [-1, 30, 0.5]) expect(() => second.level("train", index)).toThrow(/0 to 29/);
});

test("another generator is not taken for one that was compared with the same frozen entry", () => {
  const source = (generate: typeof draw) =>
    new TaskSource<ReturnType<typeof draw>>({ environment: "test", generate, key, frozen, samples: undefined });
  source(draw).split("eval");
  const changed = (split: string, index: number) => ({ ...draw(split, index), level: 9 });
  expect(() => source(changed).split("eval")).toThrow(/not the frozen ones/);
  expect(() => source(draw).split("eval")).not.toThrow();
});

test("a level is known before its split is, and of a file's samples", () => {
  const generated = new TaskSource<ReturnType<typeof draw>>({
    environment: "test",
    generate: draw,
    key,
    frozen,
    samples: undefined,
  });
  expect(generated.level("eval", 5)).toBe(3);
  const samples = [{ prompt: "a", level: 0 }];
  const data = new TaskSource<ReturnType<typeof draw>>({ environment: "test", generate: draw, key, frozen, samples });
  expect(data.split("data")).toMatchObject({ indices: [0], hash: splitHash(samples) });
  expect(data.level("data", 0)).toBe(0);
});
