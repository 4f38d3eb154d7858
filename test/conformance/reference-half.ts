/** Rounding to 16 bits, in float64 arithmetic. */
import type { HalfType } from "../../src/device/device.ts";

/** Significant bits, the smallest normal number and the largest. */
const types = {
  f16: { bits: 11, smallest: 2 ** -14, largest: 65504 },
  bf16: { bits: 8, smallest: 2 ** -126, largest: (2 - 2 ** -7) * 2 ** 127 },
};

/** The nearest number of the type, ties to even; at most its largest, and 0 below its smallest normal one. */
export function roundHalf(x: number, type: HalfType = "f16"): number {
  const { bits, smallest, largest } = types[type];
  const size = Math.abs(x);
  if (Number.isNaN(x)) return x;
  if (size < smallest) return 0;
  if (size > largest) return Math.sign(x) * largest;
  // Float32 exponents are small enough for log2 to be right but at a power of two.
  let exponent = Math.floor(Math.log2(size));
  if (2 ** exponent > size) exponent--;
  if (2 ** (exponent + 1) <= size) exponent++;
  const unit = 2 ** (exponent - bits + 1);
  const whole = Math.floor(size / unit);
  const rest = size / unit - whole;
  const up = rest > 0.5 || (rest === 0.5 && whole % 2 === 1);
  return Math.sign(x) * Math.min((up ? whole + 1 : whole) * unit, largest);
}

export function roundAll(values: Float32Array, type?: HalfType): Float32Array {
  return values.map((x) => roundHalf(x, type));
}
