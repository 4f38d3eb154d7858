/**
 * "Did you mean …": the nearest of a list of names. Spelling variants (case, `_`, `-`) cost nothing, since they are the
 * commonest slip between YAML, Python and TypeScript habits.
 */

/** The candidate nearest to `name`, or undefined when none is near enough to be a slip. */
export function nearest(name: string, candidates: readonly string[]): string | undefined {
  const wanted = fold(name);
  let best: string | undefined;
  // A third of the length wrong is still a typo; more is another word.
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(wanted, fold(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

function fold(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, "");
}

/** Optimal string alignment distance: insert, delete, replace, and swap of two neighbours cost 1 each. */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let value = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        value = Math.min(value, beforeLast[j - 2]! + 1);
      }
      row.push(value);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}
