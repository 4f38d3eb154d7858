/**
 * What a schema of single fields cannot say: options without effect, and values that do not go together.
 */

/** An option that does nothing while `when` holds. */
export interface NoEffectRule<C> {
  /** Dotted path; `*` stands for any list index. */
  path: string;
  /** `item`: the list index that `*` stands for at the option; -1 where the path has none. */
  when: (config: C, item: number) => boolean;
  /** Completes "… has no effect: ". */
  why: string;
}

/** Fields that contradict each other; the parts are those of an AgentRLError. */
export interface Conflict {
  path: string;
  what: string;
  got: unknown;
  expected: string;
  hint: string;
}

/**
 * The explicitly set options that have no effect. Defaults are never reported: only what somebody wrote, expecting it
 * to do something.
 */
export function noEffect<C>(
  rules: readonly NoEffectRule<C>[],
  config: C,
  explicit: Iterable<string>,
): { path: string; why: string }[] {
  const found: { path: string; why: string }[] = [];
  for (const path of explicit) {
    const item = Number(/\.(\d+)\./.exec(path)?.[1] ?? -1);
    const rule = rules.find((candidate) => matches(candidate.path, path) && candidate.when(config, item));
    if (!rule) continue;
    // A list is named once, not by its items.
    const named = path.replace(/(?:\.\d+)+$/, "");
    if (!found.some((one) => one.path === named)) found.push({ path: named, why: rule.why });
  }
  return found;
}

function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split(".");
  const got = path.split(".");
  // A rule on a section covers its fields.
  return (
    wanted.length <= got.length && wanted.every((part, i) => part === got[i] || (part === "*" && /^\d+$/.test(got[i]!)))
  );
}
