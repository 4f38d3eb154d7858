/** Rules of the options that give the learner and the rollout processes an adapter of their own. */
import type { Conflict, NoEffectRule } from "./rules.ts";
import { type DeviceSection, isNative, nothingThroughWebgpu } from "./sections.ts";

interface Config extends DeviceSection {
  learner: { adapter?: string | undefined };
  rollout: { adapters?: string[] | undefined; processes: number };
}

export const adaptersNoEffect: readonly NoEffectRule<Config>[] = [
  { path: "learner.adapter", when: isNative, why: nothingThroughWebgpu },
  { path: "rollout.adapters", when: isNative, why: nothingThroughWebgpu },
  {
    path: "webgpu.adapter",
    when: ({ learner, rollout }) => learner.adapter !== undefined && rollout.adapters !== undefined,
    why: "learner.adapter and rollout.adapters name all adapters",
  },
];

export function adaptersConflicts({ device, learner, rollout }: Config): Conflict[] {
  const { adapters, processes } = rollout;
  const conflicts: Conflict[] = [];
  const given = [learner.adapter && "learner.adapter", adapters && "rollout.adapters"].filter((name) => name);
  if (device === "auto" && given.length > 0) {
    conflicts.push({
      path: given[0]!,
      what: `${given.join(" and ")}: device auto may choose native, which has no adapters.`,
      got: "device: auto",
      expected: "device: webgpu",
      hint: "Set device: webgpu.",
    });
  }
  if (adapters !== undefined && adapters.length > processes) {
    conflicts.push({
      path: `rollout.adapters.${processes}`,
      what: "rollout.adapters names more adapters than there are rollout processes.",
      got: `${adapters.length} adapters`,
      expected: `at most rollout.processes = ${processes}`,
      hint: "Raise rollout.processes, or leave adapters out.",
    });
  }
  return conflicts;
}
