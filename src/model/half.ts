/** 16-bit floats in files, to float32: exact, as every float16 and bfloat16 is one. */

/** BF16 is the upper half of a float32. `to` has as many elements as `from`. */
export function bfloat16ToFloat32(from: Uint16Array, to: Float32Array): void {
  const bits = new Uint32Array(to.buffer, to.byteOffset, to.length);
  for (let i = 0; i < from.length; i++) bits[i] = from[i]! << 16;
}

export function float16ToFloat32(from: Uint16Array, to: Float32Array): void {
  for (let i = 0; i < from.length; i++) to[i] = halfToNumber(from[i]!);
}

/** IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits. */
export function halfToNumber(half: number): number {
  const exponent = (half >> 10) & 31;
  const mantissa = half & 1023;
  const magnitude =
    exponent === 31
      ? mantissa === 0
        ? Number.POSITIVE_INFINITY
        : Number.NaN
      : exponent === 0
        ? mantissa * 2 ** -24
        : (1024 + mantissa) * powers[exponent]!;
  return half & 0x8000 ? -magnitude : magnitude;
}

/** 2^(exponent - 25): of the mantissa's last bit. */
const powers = Float64Array.from({ length: 31 }, (_, exponent) => 2 ** (exponent - 25));

/** The nearest bfloat16, ties to even; NaN stays NaN. `to` has as many elements as `from`. */
export function float32ToBfloat16(from: Float32Array, to: Uint16Array): void {
  const bits = new Uint32Array(from.buffer, from.byteOffset, from.length);
  for (let i = 0; i < bits.length; i++) {
    const value = bits[i]!;
    const nan = (value & 0x7fffffff) > 0x7f800000;
    to[i] = nan ? (value >>> 16) | 0x40 : (value + 0x7fff + ((value >>> 16) & 1)) >>> 16;
  }
}

/** The nearest float16, ties to even, subnormal numbers too; beyond its range an infinity. */
export function float32ToFloat16(from: Float32Array, to: Uint16Array): void {
  for (let i = 0; i < from.length; i++) to[i] = numberToHalf(from[i]!);
}

function numberToHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (Number.isNaN(magnitude)) return 0x7e00;
  // Half-way to what would come after the largest.
  if (magnitude >= 65520) return sign | 0x7c00;
  // Exponent of the last bit that is kept.
  const exponent = Math.max(Math.floor(Math.log2(magnitude || 2 ** -14)), -14);
  const units = roundToEven(magnitude * 2 ** (10 - exponent));
  // A mantissa that rounds up to 2048 carries into the exponent by itself, and one below 1024 is subnormal.
  return sign | ((units - 1024 + ((exponent + 15) << 10)) & 0x7fff);
}

function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return rest > 0.5 ? floor + 1 : floor;
  return floor % 2 === 0 ? floor : floor + 1;
}
