/**
 * Loads the native addon and gives its CPU part one typed view. A bad argument, which the addon reports with operator,
 * argument, got and expected, leaves here as AgentRLError "DEVICE".
 */
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { AgentRLError } from "../errors.ts";
import type { HalfType, MatmulLayout, WeightType } from "./device.ts";

type F32 = Float32Array;
type U32 = Uint32Array;
/** Numbers whose type the next argument says. */
type Stored = Float32Array | Uint16Array;

/**
 * The addon's CPU functions. Operators have the names of `Device`'s methods; arguments are the tensors in the order of
 * the interface's fields, one that may have 16 bits followed by its type, then numbers and flags.
 */
export interface CpuAddon {
  setThreads(threads: number): void;
  /** Instruction set in force: "avx512", "avx2", "neon" or "plain". */
  simd(): string;
  setSimd(name: string): void;
  /** What this build and machine can run, best first. */
  simdLevels(): string[];
  /** Bytes from the start of the buffer to its first 64-byte boundary. */
  alignOffset(buffer: ArrayBuffer): number;
  /** Frees the buffer's memory at once; its views get length 0. */
  release(buffer: ArrayBuffer): void;
  /** Philox 4x32-10: four random words. */
  philox(c0: number, c1: number, c2: number, c3: number, key0: number, key1: number): number[];

  matmul(
    layout: MatmulLayout,
    a: F32,
    b: Stored,
    bType: WeightType,
    out: F32,
    bias: F32 | undefined,
    m: number,
    n: number,
    k: number,
    accumulate: boolean,
  ): void;
  /** OpenBLAS's own description where the machine has it; only for comparison. */
  openblasDescription(): string | null;
  openblasMatmul(
    layout: MatmulLayout,
    a: F32,
    b: F32,
    out: F32,
    m: number,
    n: number,
    k: number,
    threads: number,
  ): void;

  embed(table: Stored, tableType: WeightType, ids: U32, out: F32, rows: number, dim: number, vocab: number): void;
  embedBackward(ids: U32, dOut: F32, dTable: F32, rows: number, dim: number, vocab: number): void;
  gatherRows(x: F32, index: U32, out: F32, rows: number, dim: number): void;
  scatterRows(x: F32, index: U32, out: F32, rows: number, dim: number): void;
  kvWrite(k: F32, v: F32, kCache: F32, vCache: F32, slots: U32, rows: number, width: number): void;

  headLogProb(
    hidden: F32,
    weight: Stored,
    weightType: WeightType,
    targets: U32,
    temperatures: F32,
    logProbs: F32,
    entropies: F32,
    lse: F32,
    tied: boolean,
    rows: number,
    dim: number,
    vocab: number,
  ): void;
  headBackward(
    hidden: F32,
    weight: Stored,
    weightType: WeightType,
    targets: U32,
    temperatures: F32,
    lse: F32,
    entropies: F32,
    dLogProbs: F32,
    dEntropies: F32,
    dHidden: F32,
    dWeight: F32 | undefined,
    tied: boolean,
    rows: number,
    dim: number,
    vocab: number,
  ): void;
  headSample(
    hidden: F32,
    weight: Stored,
    weightType: WeightType,
    temperatures: F32,
    topK: U32,
    topP: F32,
    minP: F32,
    seeds: U32,
    tokens: U32,
    logProbs: F32,
    keptMass: F32,
    tied: boolean,
    rows: number,
    dim: number,
    vocab: number,
  ): void;
  adamw(
    param: F32,
    out: F32,
    grad: F32,
    m: F32,
    v: F32,
    length: number,
    lr: number,
    beta1: number,
    beta2: number,
    eps: number,
    weightDecay: number,
    step: number,
    gradScale: number,
  ): void;
  sumSquares(tensor: F32, length: number): number;

  roundHalf(x: F32, out: Stored, outType: WeightType, dtype: HalfType, length: number): void;
  add(a: F32, b: F32, out: F32, length: number): void;
  scale(x: F32, out: F32, factor: number, length: number): void;
  swiglu(gate: F32, up: F32, out: F32, length: number): void;
  swigluBackward(gate: F32, up: F32, dOut: F32, dGate: F32, dUp: F32, length: number): void;

  rmsNorm(x: F32, weight: F32, out: F32, invRms: F32, rows: number, dim: number, eps: number): void;
  rmsNormBackward(
    x: F32,
    weight: F32,
    invRms: F32,
    dOut: F32,
    dX: F32,
    dWeight: F32 | undefined,
    rows: number,
    dim: number,
    accumulate: boolean,
  ): void;
  rope(x: F32, cosSin: F32, positions: U32, rows: number, heads: number, headDim: number, inverse: boolean): void;
  attention(
    q: F32,
    k: F32,
    v: F32,
    out: F32,
    lse: F32,
    offsets: U32,
    heads: number,
    kvHeads: number,
    headDim: number,
    scale: number,
    sequences: number,
  ): void;
  attentionBackward(
    q: F32,
    k: F32,
    v: F32,
    out: F32,
    lse: F32,
    offsets: U32,
    dOut: F32,
    dQ: F32,
    dK: F32,
    dV: F32,
    heads: number,
    kvHeads: number,
    headDim: number,
    scale: number,
    sequences: number,
  ): void;
  attentionCached(
    q: F32,
    kCache: F32,
    vCache: F32,
    out: F32,
    positions: U32,
    sequenceOf: U32,
    pageTable: U32,
    heads: number,
    kvHeads: number,
    headDim: number,
    scale: number,
    pageTableStride: number,
    rows: number,
  ): void;
}

interface ArgumentFault extends Error {
  operator: string;
  argument: string;
  got: string;
  expected: string;
}

function isArgumentFault(error: unknown): error is ArgumentFault {
  return error instanceof Error && "operator" in error && "argument" in error;
}

/** The same function, whose argument errors are AgentRLErrors. */
function guarded<Args extends unknown[], Result>(fn: (...args: Args) => Result): (...args: Args) => Result {
  return (...args) => {
    try {
      return fn(...args);
    } catch (error) {
      if (!isArgumentFault(error)) throw error;
      throw new AgentRLError("DEVICE", `${error.operator}: argument ${error.argument} does not fit`, {
        where: `native device, ${error.operator}(${error.argument})`,
        got: error.got,
        expected: error.expected,
        cause: error,
      });
    }
  };
}

/** Where the build puts the addon. */
export const addonPath = fileURLToPath(new URL("../../build/Release/agentrl.node", import.meta.url));

/** Everything that the addon exports, untyped; parts of it are typed where they are used. */
export function loadAddon(): Record<string, unknown> {
  try {
    return createRequire(import.meta.url)(addonPath) as Record<string, unknown>;
  } catch (cause) {
    throw new AgentRLError("NATIVE_ADDON", "the native addon cannot be loaded", {
      where: addonPath,
      got: cause instanceof Error ? cause.message : String(cause),
      expected: "an addon built for this machine and this version of Node",
      hint: "run `npm run build:native` (needs a C++20 compiler, make and python3)",
      cause,
    });
  }
}

function loadCpu(): CpuAddon {
  const functions = Object.entries(loadAddon()).map(([name, value]) => [
    name,
    typeof value === "function" && /^[a-z]/.test(name) ? guarded(value as (...args: unknown[]) => unknown) : value,
  ]);
  const cpu = Object.fromEntries(functions) as CpuAddon;
  const wanted = process.env.AGENTRL_SIMD;
  if (wanted !== undefined && wanted !== "" && !cpu.simdLevels().includes(wanted)) {
    throw new AgentRLError("NATIVE_ADDON", "AGENTRL_SIMD names an instruction set that this build or machine lacks", {
      where: "environment variable AGENTRL_SIMD",
      got: wanted,
      expected: `one of ${cpu.simdLevels().join(", ")}`,
      hint: "unset it to take the best that there is",
    });
  }
  return cpu;
}

/** The CPU operators. */
export const addon: CpuAddon = loadCpu();
