/** The comparison of an experiment's arms: mean and spread over seeds, and the difference from the baseline seed by seed. */
import { successOf } from "../env/report.ts";
import { mean, standardDeviation } from "../env/statistics.ts";
import type { ArmResult } from "./run.ts";

/** Mean and standard deviation (n - 1; null for one seed) over seeds. */
export interface Spread {
  mean: number;
  sd: number | null;
  seeds: number;
}

export interface Row {
  row: string;
  /** Success by task. */
  tasks: Record<string, Spread>;
  /** Of the mean over tasks. */
  overall: Spread;
  /** Mean over tasks of pass@k, by k; empty where every task was played once. */
  passAtK: Record<string, Spread>;
  /** Overall less the baseline's, by seed; null for the baseline, and for what has no seed in common with it. */
  difference: (Spread & { interval: [number, number] | null }) | null;
}

/** Student's t, 97.5 % point, by degrees of freedom from 1 (Fisher & Yates 1938, table III); the normal's beyond 30. */
const t975 = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/** Rows in the order in which they first occur. */
export function compare(results: readonly ArmResult[], baseline: string): Row[] {
  const rows = [...new Set(results.map(({ row }) => row))];
  const scores = new Map(rows.map((row) => [row, scoresOf(results.filter((result) => result.row === row))]));
  const reference = scores.get(baseline);
  return rows.map((row) => {
    const bySeed = scores.get(row)!;
    const all = [...bySeed.values()];
    const tasks = [...new Set(all.flatMap(({ success }) => Object.keys(success)))];
    const ks = [...new Set(all.flatMap(({ passAtK }) => Object.keys(passAtK)))].filter(() => all.some(repeated));
    const differences = [...bySeed].flatMap(([seed, { overall }]) => {
      const other = reference?.get(seed);
      return row === baseline || other === undefined ? [] : [overall - other.overall];
    });
    return {
      row,
      tasks: Object.fromEntries(tasks.map((task) => [task, spread(all.flatMap(({ success }) => success[task] ?? []))])),
      overall: spread(all.map(({ overall }) => overall)),
      passAtK: Object.fromEntries(ks.map((k) => [k, spread(all.flatMap(({ passAtK }) => passAtK[k] ?? []))])),
      difference: differences.length === 0 ? null : { ...spread(differences), interval: interval(differences) },
    };
  });
}

interface Scores {
  success: Record<string, number>;
  overall: number;
  passAtK: Record<string, number>;
}

function repeated({ passAtK }: Scores): boolean {
  return Object.keys(passAtK).length > 1;
}

/** A row's scores by seed: the arms of a group are put together, each with its own tasks. */
function scoresOf(results: readonly ArmResult[]): Map<number, Scores> {
  const bySeed = new Map<number, Scores>();
  for (const seed of new Set(results.map((result) => result.seed))) {
    const reports = results.filter((result) => result.seed === seed).flatMap((result) => result.reports);
    const tasks = [...new Set(reports.map(({ task }) => task))];
    const of = (task: string) => reports.filter((report) => report.task === task);
    const success = Object.fromEntries(tasks.map((task) => [task, mean(of(task).map(successOf))]));
    const ks = [...new Set(reports.flatMap(({ statistics }) => Object.keys(statistics?.passAtK ?? {})))];
    const passAtK = ks.map((k) => [
      k,
      mean(tasks.map((task) => mean(of(task).flatMap(({ statistics }) => statistics?.passAtK[k] ?? [])))),
    ]);
    bySeed.set(seed, { success, overall: mean(Object.values(success)), passAtK: Object.fromEntries(passAtK) });
  }
  return bySeed;
}

export function spread(values: readonly number[]): Spread {
  return {
    mean: mean(values),
    sd: values.length < 2 ? null : standardDeviation(values),
    seeds: values.length,
  };
}

/** 95 % confidence interval of the mean, by Student's t; null for one value. */
function interval(values: readonly number[]): [number, number] | null {
  if (values.length < 2) return null;
  const half = ((t975[values.length - 2] ?? 1.96) * standardDeviation(values)) / Math.sqrt(values.length);
  return [mean(values) - half, mean(values) + half];
}
