/** `agentrl bench gemm`: GFLOP/s of the native matrix product beside OpenBLAS, in the same run, taking turns. */
import { availableParallelism, cpus } from "node:os";
import { addon } from "../device/addon.ts";
import type { MatmulLayout } from "../device/device.ts";
import { AgentRLError } from "../errors.ts";
import { OPENBLAS_HINT, type OpenBlas, openOpenBlas } from "./openblas.ts";
import { compare, geometricMean } from "./timing.ts";

export interface GemmShape {
  /** "cube", or which product of the tiny model it is. */
  group: string;
  layout: MatmulLayout;
  m: number;
  n: number;
  k: number;
}

export interface GemmOptions {
  /** Measure with so many threads only. @default 1 and 2 */
  threads?: number;
  /** Time per shape and thread count. @default 0.3 */
  seconds?: number;
  /** @default {64, 256, 1024}³ in every layout, and the tiny model's products */
  shapes?: readonly GemmShape[];
  /** Takes a line of the table at a time. @default standard output */
  print?: (line: string) => void;
}

export interface GemmResult extends GemmShape {
  threads: number;
  /** Gigaflops per second: 2 m n k / time. */
  gflops: number;
  openblasGflops: number | null;
  /** gflops / openblasGflops: above 1 we are faster. */
  ratio: number | null;
}

export interface GemmReport {
  cpu: string;
  cores: number;
  simd: string;
  openblas: OpenBlas | null;
  notes: string[];
  results: GemmResult[];
  /** Geometric mean of the ratios over all shapes, and per thread count; null without OpenBLAS. */
  ratio: { all: number; byThreads: Record<string, number> } | null;
}

// The tiny model (width 128, hidden 384, vocabulary 1024): rows 1 to 64 when decoding, 4096 when training.
const WIDTH = 128;
const HIDDEN = 384;
const VOCABULARY = 1024;
/** Width of keys and values: grouped-query attention has fewer heads for them. */
const KEY_WIDTH = 64;

export function defaultShapes(): GemmShape[] {
  const shapes: GemmShape[] = [];
  for (const size of [64, 256, 1024]) {
    for (const layout of ["nn", "nt", "tn"] as const) shapes.push({ group: "cube", layout, m: size, n: size, k: size });
  }
  const projections = [
    [WIDTH, KEY_WIDTH],
    [WIDTH, WIDTH],
    [WIDTH, HIDDEN],
    [HIDDEN, WIDTH],
  ] as const;
  for (const [k, n] of projections) {
    for (const m of [1, 16, 64]) shapes.push({ group: "decode", layout: "nn", m, n, k });
    const tokens = 4096;
    shapes.push({ group: "forward", layout: "nn", m: tokens, n, k });
    shapes.push({ group: "input gradient", layout: "nt", m: tokens, n: k, k: n });
    shapes.push({ group: "weight gradient", layout: "tn", m: k, n, k: tokens });
  }
  for (const m of [1, 16, 64, 4096]) shapes.push({ group: "head", layout: "nt", m, n: VOCABULARY, k: WIDTH });
  return shapes;
}

/** Measures; also checks that both sides computed the same product. */
export async function benchGemm(options: GemmOptions = {}): Promise<GemmReport> {
  const print = options.print ?? ((line: string) => void process.stdout.write(`${line}\n`));
  const threadCounts = options.threads === undefined ? [1, 2] : [options.threads];
  const shapes = options.shapes ?? defaultShapes();
  const openblas = openOpenBlas();
  const notes = openblas === null ? [OPENBLAS_HINT] : [...openblas.notes];
  const cores = availableParallelism();
  for (const threads of threadCounts) {
    if (threads > cores) notes.push(`${threads} threads were measured on ${cores} core${cores === 1 ? "" : "s"}`);
  }
  const cpu = cpus()[0]?.model ?? "unknown";
  print(`${cpu}, ${cores} cores, ${addon.simd()}; beside: ${openblas?.description ?? "nothing"}`);
  for (const note of notes) print(`note: ${note}`);
  print("threads  layout       m     n     k     GFLOP/s   OpenBLAS   ratio");

  const results: GemmResult[] = [];
  for (const threads of threadCounts) {
    for (const shape of shapes) {
      const result = measure(shape, threads, openblas !== null, options.seconds ?? 0.3);
      results.push(result);
      print(line(result));
      // Lets signals and timers through between shapes.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  const ratio = ratioOf(results);
  if (ratio !== null) print(`geometric mean of the ratios: ${ratio.all.toFixed(2)}`);
  return { cpu, cores, simd: addon.simd(), openblas, notes, results, ratio };
}

function measure(shape: GemmShape, threads: number, withOpenBlas: boolean, seconds: number): GemmResult {
  const { layout, m, n, k } = shape;
  const [a, b] = [numbers(m * k), numbers(k * n)];
  const [ours, theirs] = [new Float32Array(m * n), new Float32Array(m * n)];
  addon.setThreads(threads);
  const candidates = [() => addon.matmul(layout, a, b, "f32", ours, undefined, m, n, k, false)];
  if (withOpenBlas) candidates.push(() => addon.openblasMatmul(layout, a, b, theirs, m, n, k, threads));
  const [ourTime, theirTime] = compare(candidates, seconds);
  if (withOpenBlas) expectEqual(ours, theirs, shape);
  const gflops = (2 * m * n * k) / ourTime! / 1e9;
  const openblasGflops = theirTime === undefined ? null : (2 * m * n * k) / theirTime / 1e9;
  return { ...shape, threads, gflops, openblasGflops, ratio: openblasGflops === null ? null : gflops / openblasGflops };
}

/** In [-1, 1), the same in every run (Knuth's linear congruential generator). */
function numbers(length: number): Float32Array {
  let state = 1;
  return Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

function expectEqual(ours: Float32Array, theirs: Float32Array, { layout, m, n, k }: GemmShape): void {
  // Each of k sums, of size k at most, is rounded to float32; the two sides add in different orders.
  const tolerance = k * Math.sqrt(k) * 2 ** -22;
  const at = ours.findIndex((value, i) => !(Math.abs(value - theirs[i]!) <= tolerance));
  if (at < 0) return;
  throw new AgentRLError("DEVICE", "the native matrix product and OpenBLAS disagree", {
    where: `${layout} ${m}x${n}x${k}, element ${at}`,
    got: ours[at],
    expected: `${theirs[at]} within ${tolerance}`,
  });
}

function ratioOf(results: readonly GemmResult[]): GemmReport["ratio"] {
  const compared = results.filter((result) => result.ratio !== null);
  if (compared.length === 0) return null;
  const mean = (some: readonly GemmResult[]) => geometricMean(some.map((result) => result.ratio!));
  const counts = new Set(compared.map((result) => result.threads));
  const byThreads = Array.from(counts, (threads) => [
    String(threads),
    mean(compared.filter((result) => result.threads === threads)),
  ]);
  return { all: mean(compared), byThreads: Object.fromEntries(byThreads) };
}

function line(r: GemmResult): string {
  const size = (value: number) => String(value).padStart(6);
  const theirs = r.openblasGflops === null ? "-" : r.openblasGflops.toFixed(1);
  const ratio = r.ratio === null ? "-" : r.ratio.toFixed(2);
  const numbers = `${size(r.m)}${size(r.n)}${size(r.k)}${r.gflops.toFixed(1).padStart(12)}`;
  return `${String(r.threads).padStart(7)}  ${r.layout.padEnd(6)}${numbers}${theirs.padStart(11)}${ratio.padStart(8)}  ${r.group}`;
}
