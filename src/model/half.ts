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
