// Rounding of a Lane (f32 or vec4f) to the nearest f16 or bf16, ties to even. It is done on the bits, since WGSL leaves to
// the driver which way a conversion rounds: what comes out is an f16 already, which any driver converts exactly. Beyond the
// type's range stands its largest number; below its smallest normal one stands 0, which a driver could make of it anyway.
#if LANE == vec4f
alias Word = vec4u;
#else
alias Word = u32;
#endif

const SIGN = 0x80000000u;
const INFINITY = 0x7f800000u;
const SMALLEST_NORMAL_HALF = 0x38800000u;  // 2^-14
const LARGEST_HALF = 0x477fe000u;          // 65504
const SMALLEST_NORMAL_BF16 = 0x00800000u;  // 2^-126
const LARGEST_BF16 = 0x7f7f0000u;          // 2^128 - 2^120
// Set in a NaN, so that it stays one without its lower half.
const QUIET = 0x00400000u;

// f16 has 13 bits less than f32.
fn half_bits(bits: Word) -> Word {
  let magnitude = bits & Word(~SIGN);
  let rounded = (magnitude + Word(0xfffu) + ((magnitude >> Word(13u)) & Word(1u))) & Word(~0x1fffu);
  let finite = min(rounded, Word(LARGEST_HALF)) | (bits & Word(SIGN));
  let number = select(finite, Word(0u), magnitude < Word(SMALLEST_NORMAL_HALF));
  return select(number, bits | Word(QUIET), magnitude > Word(INFINITY));
}

// bf16 has 16 bits less.
fn bf16_bits(bits: Word) -> Word {
  let magnitude = bits & Word(~SIGN);
  let rounded = (magnitude + Word(0x7fffu) + ((magnitude >> Word(16u)) & Word(1u))) & Word(~0xffffu);
  let finite = min(rounded, Word(LARGEST_BF16)) | (bits & Word(SIGN));
  let number = select(finite, Word(0u), magnitude < Word(SMALLEST_NORMAL_BF16));
  return select(number, bits | Word(QUIET), magnitude > Word(INFINITY));
}

#if HALF
#if LANE == vec4f
alias Half = vec4h;
#else
alias Half = f16;
#endif

fn half(bits: Word) -> Half {
  return Half(bitcast<{{LANE}}>(half_bits(bits)));
}
#endif
