/**
 * Operators that look rows up by an index. The index lies on the GPU, so the host cannot refuse one that is out of
 * range, as the native device does: such a row is left alone, neither read nor written.
 */
import { ATTENTION_BLOCK, type Device, type KvWriteArgs, weightTypes } from "../../device.ts";
import { type Gpu, operand } from "../gpu.ts";
import type { WebGpuTensor } from "../tensor.ts";
import { windowsOf } from "../windows.ts";
import { groupsFor, WORKGROUP } from "./elementwise.ts";
import { cacheTypes } from "./half.ts";

export function embed(gpu: Gpu, x: Parameters<Device["embed"]>[0]): void {
  const { rows, dim, vocab } = x;
  const table = operand("embed", "table", x.table, weightTypes, vocab * dim);
  const ids = operand("embed", "ids", x.ids, "u32", rows);
  const out = operand("embed", "out", x.out, "f32", rows * dim);
  gather(gpu, { operator: "embed", table, entries: vocab, index: ids, out, rows, dim });
}

export function embedBackward(gpu: Gpu, x: Parameters<Device["embedBackward"]>[0]): void {
  const { rows, dim, vocab } = x;
  const ids = operand("embedBackward", "ids", x.ids, "u32", rows);
  const dOut = operand("embedBackward", "dOut", x.dOut, "f32", rows * dim);
  const dTable = operand("embedBackward", "dTable", x.dTable, "f32", vocab * dim);
  const links = gpu.scratch("embed.links", rows, "u32");
  const groups = gpu.fold(Math.ceil(rows / WORKGROUP));
  gpu.recorder.dispatch({ kernel: "embed_links", bindings: [ids, links], params: { rows }, groups });
  const row = lanesOf(rows, dim);
  for (const { first, count } of windowsOf(gpu, "embedBackward, dTable", vocab, dim)) {
    gpu.recorder.dispatch({
      kernel: "embed_backward",
      constants: row.constants,
      bindings: [ids, links, dOut, gpu.view(dTable, first * dim, count * dim)],
      params: { rows, lanes: row.lanes, width: row.width, first, limit: count },
      groups: groupsFor(gpu, row.lanes),
    });
  }
}

export function gatherRows(gpu: Gpu, x: Parameters<Device["gatherRows"]>[0]): void {
  const { rows, dim } = x;
  const table = operand("gatherRows", "x", x.x, "f32", 0);
  const index = operand("gatherRows", "index", x.index, "u32", rows);
  const out = operand("gatherRows", "out", x.out, "f32", rows * dim);
  gather(gpu, { operator: "gatherRows", table, entries: Math.floor(table.length / dim), index, out, rows, dim });
}

export function scatterRows(gpu: Gpu, x: Parameters<Device["scatterRows"]>[0]): void {
  const { rows, dim } = x;
  const from = operand("scatterRows", "x", x.x, "f32", rows * dim);
  const index = operand("scatterRows", "index", x.index, "u32", rows);
  const out = operand("scatterRows", "out", x.out, "f32", 0);
  scatter(gpu, { operator: "scatterRows", moves: [[from, out]], index, rows, dim });
}

export function kvWrite(gpu: Gpu, x: KvWriteArgs): void {
  const { rows, width } = x;
  const k = operand("kvWrite", "k", x.k, "f32", rows * width);
  const v = operand("kvWrite", "v", x.v, "f32", rows * width);
  const kCache = operand("kvWrite", "kCache", x.kCache, cacheTypes, ATTENTION_BLOCK * width);
  const vCache = operand("kvWrite", "vCache", x.vCache, kCache.dtype, kCache.length);
  const index = operand("kvWrite", "slots", x.slots, "u32", rows);
  const moves: Move[] = [
    [k, kCache],
    [v, vCache],
  ];
  // Two parts of one buffer must not both be bound for writing.
  const together = kCache.allocation !== vCache.allocation;
  for (const some of together ? [moves] : moves.map((move) => [move])) {
    scatter(gpu, { operator: "kvWrite", moves: some, index, rows, dim: width });
  }
}

interface Gather {
  operator: string;
  table: WebGpuTensor;
  /** Rows of the table. */
  entries: number;
  index: WebGpuTensor;
  out: WebGpuTensor;
  rows: number;
  dim: number;
}

function gather(gpu: Gpu, { operator, table, entries, index, out, rows, dim }: Gather): void {
  const { constants, lanes, width } = lanesOf(rows, dim);
  for (const { first, count } of windowsOf(gpu, operator, entries, dim)) {
    gpu.recorder.dispatch({
      kernel: "gather_rows",
      constants: { ...constants, TYPE: table.dtype },
      bindings: [index, gpu.view(table, first * dim, count * dim), out],
      params: { lanes, width, first, limit: count },
      groups: groupsFor(gpu, lanes),
    });
  }
}

type Move = [from: WebGpuTensor, to: WebGpuTensor];

interface Scatter {
  operator: string;
  moves: Move[];
  index: WebGpuTensor;
  rows: number;
  dim: number;
}

/** One or two pairs of tensors, the second target of the first's type and at least as long. */
function scatter(gpu: Gpu, { operator, moves, index, rows, dim }: Scatter): void {
  const { constants, lanes, width } = lanesOf(rows, dim);
  const target = moves[0]![1];
  const entries = Math.floor(target.length / dim);
  for (const { first, count } of windowsOf(gpu, operator, entries, dim)) {
    const pairs = moves.flatMap(([from, to]) => [from, gpu.view(to, first * dim, count * dim)]);
    gpu.recorder.dispatch({
      kernel: "scatter_rows",
      constants: { ...constants, PAIR: moves.length === 2, HALF: target.dtype === "f16" },
      bindings: [index, ...pairs],
      params: { lanes, width, first, limit: count },
      groups: groupsFor(gpu, lanes),
    });
  }
}

/** Rows as vectors of four where the dimension allows. */
function lanesOf(rows: number, dim: number) {
  const vector = dim % 4 === 0;
  const width = vector ? dim / 4 : dim;
  return { constants: { LANE: vector ? "vec4f" : "f32" }, width, lanes: rows * width };
}
