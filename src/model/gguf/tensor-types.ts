/**
 * The tensor types of GGUF that can be read, each to the float32 numbers that ggml's own dequantisation gives. Types with
 * a Q pack blocks of 32 or 256 elements: small integers, with a scale (and a minimum) for each block as float16
 * (https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h). Every product here fits into float64 exactly, so
 * there is one rounding, to float32 where the number is stored, as there is in a computation in float32.
 */
import { bfloat16ToFloat32, float16ToFloat32, halfToNumber } from "../half.ts";

export interface TensorType {
  /** Elements in a block, and the bytes that they take. */
  block: number;
  bytes: number;
  /** `raw` holds whole blocks, `out` as many elements as they have. */
  decode(raw: Uint8Array, out: Float32Array): void;
}

/** By ggml's name of the type. */
export const tensorTypes: Readonly<Record<string, TensorType>> = {
  F32: { block: 1, bytes: 4, decode: (raw, out) => asBytes(out).set(raw) },
  F16: { block: 1, bytes: 2, decode: (raw, out) => float16ToFloat32(asHalves(raw), out) },
  BF16: { block: 1, bytes: 2, decode: (raw, out) => bfloat16ToFloat32(asHalves(raw), out) },
  Q4_0: blocks(32, 18, decodeQ40),
  Q4_1: blocks(32, 20, decodeQ41),
  Q5_0: blocks(32, 22, decodeQ50),
  Q5_1: blocks(32, 24, decodeQ51),
  Q8_0: blocks(32, 34, decodeQ80),
  Q4_K: blocks(256, 144, decodeQ4K),
  Q5_K: blocks(256, 176, decodeQ5K),
  Q6_K: blocks(256, 210, decodeQ6K),
};

/** Writes the elements of the block that starts at `at` from `to` on. */
type DecodeBlock = (raw: Uint8Array, at: number, out: Float32Array, to: number) => void;

function blocks(block: number, bytes: number, decodeBlock: DecodeBlock): TensorType {
  return {
    block,
    bytes,
    decode(raw, out) {
      for (let at = 0, to = 0; to < out.length; at += bytes, to += block) decodeBlock(raw, at, out, to);
    },
  };
}

function asBytes(array: Float32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** `raw` starts at a multiple of 2 in its buffer. */
function asHalves(raw: Uint8Array): Uint16Array {
  return new Uint16Array(raw.buffer, raw.byteOffset, raw.byteLength / 2);
}

function half(raw: Uint8Array, at: number): number {
  return halfToNumber(raw[at]! | (raw[at + 1]! << 8));
}

function signed(byte: number): number {
  return (byte << 24) >> 24;
}

/** {d, quants[16]}: d · (q - 8). Of each byte the low half is element i, the high half element i + 16; so in all of Q4 and Q5. */
function decodeQ40(raw: Uint8Array, at: number, out: Float32Array, to: number): void {
  const d = half(raw, at);
  for (let i = 0; i < 16; i++) {
    const byte = raw[at + 2 + i]!;
    out[to + i] = d * ((byte & 15) - 8);
    out[to + i + 16] = d * ((byte >> 4) - 8);
  }
}

/** {d, m, quants[16]}: d · q + m. */
function decodeQ41(raw: Uint8Array, at: number, out: Float32Array, to: number): void {
  const d = half(raw, at);
  const m = half(raw, at + 2);
  for (let i = 0; i < 16; i++) {
    const byte = raw[at + 4 + i]!;
    out[to + i] = d * (byte & 15) + m;
    out[to + i + 16] = d * (byte >> 4) + m;
  }
}

/** {d, high[4], quants[16]}: d · (q - 16), bit i of `high` being the fifth bit of element i. */
function decodeQ50(raw: Uint8Array, at: number, out: Float32Array, to: number): void {
  const d = half(raw, at);
  for (let i = 0; i < 16; i++) {
    const byte = raw[at + 6 + i]!;
    out[to + i] = d * (((byte & 15) | (fifthBit(raw, at + 2, i) << 4)) - 16);
    out[to + i + 16] = d * (((byte >> 4) | (fifthBit(raw, at + 2, i + 16) << 4)) - 16);
  }
}

/** {d, m, high[4], quants[16]}: d · q + m. */
function decodeQ51(raw: Uint8Array, at: number, out: Float32Array, to: number): void {
  const d = half(raw, at);
  const m = half(raw, at + 2);
  for (let i = 0; i < 16; i++) {
    const byte = raw[at + 8 + i]!;
    out[to + i] = d * ((byte & 15) | (fifthBit(raw, at + 4, i) << 4)) + m;
    out[to + i + 16] = d * ((byte >> 4) | (fifthBit(raw, at + 4, i + 16) << 4)) + m;
  }
}

function fifthBit(raw: Uint8Array, at: number, element: number): number {
  return (raw[at + (element >> 3)]! >> (element & 7)) & 1;
}

/** {d, quants[32]}: d · q, q signed. */
function decodeQ80(raw: Uint8Array, at: number, out: Float32Array, to: number): void {
  const d = half(raw, at);
  for (let i = 0; i < 32; i++) out[to + i] = d * signed(raw[at + 2 + i]!);
}

/** {d, dmin, scales[12], quants[128]}: eight groups of 32, each with d · scale · q - dmin · min. */
function decodeQ4K(raw: Uint8Array, at: number, out: Float32Array, to: number): void {
  const d = half(raw, at);
  const dmin = half(raw, at + 2);
  for (let pair = 0; pair < 4; pair++) {
    const low = groupScale(raw, at + 4, 2 * pair, d, dmin);
    const high = groupScale(raw, at + 4, 2 * pair + 1, d, dmin);
    const quants = at + 16 + 32 * pair;
    const first = to + 64 * pair;
    for (let i = 0; i < 32; i++) {
      const byte = raw[quants + i]!;
      out[first + i] = low.scale * (byte & 15) - low.min;
      out[first + i + 32] = high.scale * (byte >> 4) - high.min;
    }
  }
}

/** {d, dmin, scales[12], high[32], quants[128]}: as Q4_K; bit g of high[i] is the fifth bit of element i of group g. */
function decodeQ5K(raw: Uint8Array, at: number, out: Float32Array, to: number): void {
  const d = half(raw, at);
  const dmin = half(raw, at + 2);
  for (let pair = 0; pair < 4; pair++) {
    const low = groupScale(raw, at + 4, 2 * pair, d, dmin);
    const high = groupScale(raw, at + 4, 2 * pair + 1, d, dmin);
    const quants = at + 48 + 32 * pair;
    const first = to + 64 * pair;
    for (let i = 0; i < 32; i++) {
      const byte = raw[quants + i]!;
      const fifth = raw[at + 16 + i]! >> (2 * pair);
      out[first + i] = low.scale * ((byte & 15) | ((fifth & 1) << 4)) - low.min;
      out[first + i + 32] = high.scale * ((byte >> 4) | (((fifth >> 1) & 1) << 4)) - high.min;
    }
  }
}

/** Eight 6-bit scales and eight 6-bit minima in 12 bytes: the last four of each have their upper two bits in the first eight bytes. */
function groupScale(raw: Uint8Array, at: number, group: number, d: number, dmin: number) {
  const byte = raw[at + group]!;
  const next = raw[at + group + 4]!;
  if (group < 4) return { scale: d * (byte & 63), min: dmin * (next & 63) };
  const scale = (next & 15) | ((raw[at + group - 4]! >> 6) << 4);
  const min = (next >> 4) | ((byte >> 6) << 4);
  return { scale: d * scale, min: dmin * min };
}

/** {low[128], high[64], scales[16], d}: sixteen groups of 16, each with d · scale · (q - 32), scales signed. */
function decodeQ6K(raw: Uint8Array, at: number, out: Float32Array, to: number): void {
  const d = half(raw, at + 208);
  for (let part = 0; part < 2; part++) {
    const low = at + 64 * part;
    const high = at + 128 + 32 * part;
    const scales = at + 192 + 8 * part;
    const first = to + 128 * part;
    for (let i = 0; i < 32; i++) {
      const group = scales + (i >> 4);
      const bits = raw[high + i]!;
      const a = raw[low + i]!;
      const b = raw[low + i + 32]!;
      out[first + i] = d * signed(raw[group]!) * (((a & 15) | ((bits & 3) << 4)) - 32);
      out[first + i + 32] = d * signed(raw[group + 2]!) * (((b & 15) | (((bits >> 2) & 3) << 4)) - 32);
      out[first + i + 64] = d * signed(raw[group + 4]!) * (((a >> 4) | (((bits >> 4) & 3) << 4)) - 32);
      out[first + i + 96] = d * signed(raw[group + 6]!) * (((b >> 4) | ((bits >> 6) << 4)) - 32);
    }
  }
}
