/**
 * Frozen splits: SHA-256 over the canonical JSON of the tasks themselves, compared with a committed value. So a changed
 * generator, word list or data file cannot pass for the panel that earlier results were measured on.
 */
import { createHash } from "node:crypto";
import { AgentRLError } from "../errors.ts";

/** JSON with sorted keys and no spaces: equal values give equal text. `undefined` members are left out, as JSON does. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
      .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

/** SHA-256 (hex) of `canonicalJson([...tasks])`, fed task by task: a split need not fit in memory. */
export function splitHash(tasks: Iterable<unknown>): string {
  const hash = createHash("sha256");
  hash.update("[");
  let first = true;
  for (const task of tasks) {
    if (!first) hash.update(",");
    first = false;
    hash.update(canonicalJson(task));
  }
  hash.update("]");
  return hash.digest("hex");
}

/** One entry of a committed `splits.json`. */
export interface FrozenSplit {
  count: number;
  sha256: string;
}

/** Throws ENVIRONMENT when the tasks of a split are not the frozen ones. */
export function assertFrozen(environment: string, split: string, frozen: FrozenSplit, got: string): void {
  if (got === frozen.sha256) return;
  throw new AgentRLError("ENVIRONMENT", `${environment}: the tasks of split "${split}" are not the frozen ones`, {
    where: `envs/${environment}/splits.json`,
    got,
    expected: frozen.sha256,
    hint: "the generator or its word lists changed: undo that, or freeze a new version with `npx tsx envs/freeze.ts` and say so in the results",
  });
}
