/**
 * Where an environment's tasks come from: generated splits, frozen by hash, or the samples of a file as split "data".
 * Keeps train apart from eval: a train task whose key also occurs in eval is drawn again.
 */
import { AgentRLError } from "../errors.ts";
import type { Split } from "./environment.ts";
import { assertFrozen, type FrozenSplit, splitHash } from "./split-hash.ts";

/** What an environment knows about its generated tasks; `level` is a task's difficulty, 1 the easiest. */
export interface GeneratedTasks<T extends Graded> {
  environment: string;
  /** A pure function; `attempt` counts the redraws of one index. */
  generate(split: string, index: number, attempt: number): T;
  /** What makes two tasks the same to a policy: its prompt. */
  key(task: T): string;
  /** The committed `splits.json`: split name → count and hash. */
  frozen: Record<string, FrozenSplit>;
}

export interface Graded {
  level: number;
}

export interface TaskSourceOptions<T extends Graded> extends GeneratedTasks<T> {
  /** Samples of a file; then "data" is the only split. */
  samples: readonly T[] | undefined;
}

/** Generated tasks kept at hand: an epoch of groups asks for each task several times in a row. */
const CACHE = 512;

/** What generating all tasks of a split told. */
interface Survey {
  hash: string;
  /** [index] */
  levels: Uint8Array;
}

/**
 * By generator and frozen entry, for the whole process: a generator is a pure function, so its thousands of tasks need
 * be compared with the frozen ones once, however many environments are opened.
 */
const surveys = new WeakMap<GeneratedTasks<Graded>["generate"], WeakMap<FrozenSplit, Survey>>();

export class TaskSource<T extends Graded> {
  readonly #options: TaskSourceOptions<T>;
  readonly #cache = new Map<string, T>();
  readonly #surveys = new Map<string, Survey>();
  #evalKeys: Set<string> | undefined;

  constructor(options: TaskSourceOptions<T>) {
    this.#options = options;
  }

  task(split: string, index: number): T {
    const count = this.#count(split);
    if (!Number.isInteger(index) || index < 0 || index >= count) {
      throw new AgentRLError("USAGE", `${this.#options.environment}: no task ${index} in split "${split}"`, {
        got: index,
        expected: `an integer from 0 to ${count - 1}`,
        hint: "take indices from split(name).indices",
      });
    }
    if (this.#options.samples !== undefined) return this.#options.samples[index]!;
    const name = `${split}/${index}`;
    let task = this.#cache.get(name);
    if (task === undefined) {
      task = this.#generate(split, index);
      if (this.#cache.size >= CACHE) this.#cache.delete(this.#cache.keys().next().value!);
      this.#cache.set(name, task);
    }
    return task;
  }

  /** The split's indices; its tasks were generated in this process and their hash compared with the frozen one. */
  split(name: string): Split {
    const { hash, levels } = this.#survey(name);
    return { name, indices: [...levels.keys()], hash };
  }

  /** Of one task: without generating it where its split has been. */
  level(split: string, index: number): number {
    return this.#surveys.get(split)?.levels[index] ?? this.task(split, index).level;
  }

  #survey(name: string): Survey {
    const { environment, frozen, generate, samples } = this.#options;
    const count = this.#count(name);
    const entry = samples === undefined ? frozen[name] : undefined;
    const known = this.#surveys.get(name) ?? (entry && surveys.get(generate)?.get(entry));
    if (known !== undefined) {
      this.#surveys.set(name, known);
      return known;
    }
    const levels = new Uint8Array(count);
    const hash = splitHash(this.#graded(name, levels));
    const survey = { hash, levels };
    if (entry !== undefined) {
      assertFrozen(environment, name, entry, hash);
      const ofGenerator = surveys.get(generate) ?? new WeakMap<FrozenSplit, Survey>();
      surveys.set(generate, ofGenerator.set(entry, survey));
    }
    this.#surveys.set(name, survey);
    return survey;
  }

  /** All tasks of a split, in order; notes their levels. */
  *#graded(split: string, levels: Uint8Array): Generator<T> {
    let index = 0;
    for (const task of this.tasks(split)) {
      levels[index++] = task.level;
      yield task;
    }
  }

  /** All tasks of a split, in order. */
  *tasks(split: string): Generator<T> {
    const count = this.#count(split);
    for (let index = 0; index < count; index++) {
      yield this.#options.samples?.[index] ?? this.#generate(split, index);
    }
  }

  #count(split: string): number {
    const counts: Record<string, number> =
      this.#options.samples === undefined
        ? Object.fromEntries(Object.entries(this.#options.frozen).map(([name, { count }]) => [name, count]))
        : { data: this.#options.samples.length };
    const count = Object.hasOwn(counts, split) ? counts[split] : undefined;
    if (count !== undefined) return count;
    throw new AgentRLError("USAGE", `${this.#options.environment}: no split is called "${split}"`, {
      got: split,
      expected: Object.keys(counts).join(", "),
      hint:
        this.#options.samples === undefined
          ? 'split "data" needs a sample file'
          : 'a sample file has one split, "data"',
    });
  }

  #generate(split: string, index: number): T {
    const { generate, key } = this.#options;
    if (split === "eval") return generate(split, index, 0);
    this.#evalKeys ??= new Set([...this.tasks("eval")].map(key));
    for (let attempt = 0; ; attempt++) {
      const task = generate(split, index, attempt);
      if (!this.#evalKeys.has(key(task))) return task;
    }
  }
}
