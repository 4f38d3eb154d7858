// Sixteen float lanes with the same arithmetic on every instruction set, so that a kernel written once gives the same
// bits on AVX-512 (one register), AVX2 (two), NEON (four) and plain C++ (an array). Compiled once per instruction set
// in its own namespace: `agentrl::AGENTRL_ISA`. Reductions go through one fixed tree; exp is our own polynomial.
//
// Do not use inline standard-library functions with float arguments here or in kernels (std::fma, std::max ...): their
// one shared copy might be the one compiled for AVX-512 and then run on a machine without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "numbers.h"

#if defined(AGENTRL_ISA_AVX512) || defined(AGENTRL_ISA_AVX2)
#include <immintrin.h>
#elif defined(AGENTRL_ISA_NEON)
#include <arm_neon.h>
#endif

#ifndef AGENTRL_ISA
#error "AGENTRL_ISA names the namespace of this instruction set: plain, avx2, avx512 or neon"
#endif

#define AGENTRL_INLINE static inline __attribute__((always_inline))

namespace agentrl::AGENTRL_ISA {

constexpr int kLanes = 16;

// ---- One number, as float32 ----

AGENTRL_INLINE float number(float x) { return x; }
AGENTRL_INLINE float number(Bf16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
/** Exponent and fraction where a float32 has them are the number times 2^-112, exactly; infinities and NaN aside. */
AGENTRL_INLINE float number(F16 x) {
  uint32_t bits = static_cast<uint32_t>(x.bits & 0x7fff) << 13;
  const bool finite = bits < 0x0f800000;
  if (!finite) bits |= 0x7f800000;
  float value;
  memcpy(&value, &bits, sizeof value);
  if (finite) value *= 0x1p112f;
  memcpy(&bits, &value, sizeof bits);
  bits |= static_cast<uint32_t>(x.bits & 0x8000) << 16;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// ---- The vector: load, store, arithmetic ----
//
// max(a, b) is a > b ? a : b and min(a, b) is a < b ? a : b, also for NaN and signed zero (as x86 defines them).
// A masked load or store touches the first n lanes only (n may exceed 16); lanes not loaded are 0. Loads widen F16 and
// Bf16, exactly.

#if defined(AGENTRL_ISA_AVX512) || defined(AGENTRL_ISA_AVX2)
AGENTRL_INLINE __m256 widenEight(__m128i x, F16) { return _mm256_cvtph_ps(x); }
AGENTRL_INLINE __m256 widenEight(__m128i x, Bf16) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
#endif

#if defined(AGENTRL_ISA_AVX512)

struct V {
  __m512 v;
};
struct Mask {
  __mmask16 m;
};
AGENTRL_INLINE Mask firstLanes(size_t n) {
  return {static_cast<__mmask16>(n >= 16 ? 0xffffu : (1u << n) - 1u)};
}
AGENTRL_INLINE V load(const float* p) { return {_mm512_loadu_ps(p)}; }
AGENTRL_INLINE V load(const float* p, Mask m) { return {_mm512_maskz_loadu_ps(m.m, p)}; }
AGENTRL_INLINE V widen(__m256i x, F16) { return {_mm512_cvtph_ps(x)}; }
AGENTRL_INLINE V widen(__m256i x, Bf16) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
}
template <typename Half>
AGENTRL_INLINE V load(const Half* p) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), Half{});
}
template <typename Half>
AGENTRL_INLINE V load(const Half* p, Mask m) {
  return widen(_mm256_maskz_loadu_epi16(m.m, p), Half{});
}
AGENTRL_INLINE void store(float* p, V a) { _mm512_storeu_ps(p, a.v); }
AGENTRL_INLINE void store(float* p, V a, Mask m) { _mm512_mask_storeu_ps(p, m.m, a.v); }
AGENTRL_INLINE V zero() { return {_mm512_setzero_ps()}; }
AGENTRL_INLINE V set1(float x) { return {_mm512_set1_ps(x)}; }
AGENTRL_INLINE V add(V a, V b) { return {_mm512_add_ps(a.v, b.v)}; }
AGENTRL_INLINE V sub(V a, V b) { return {_mm512_sub_ps(a.v, b.v)}; }
AGENTRL_INLINE V mul(V a, V b) { return {_mm512_mul_ps(a.v, b.v)}; }
AGENTRL_INLINE V div(V a, V b) { return {_mm512_div_ps(a.v, b.v)}; }
AGENTRL_INLINE V sqrt(V a) { return {_mm512_sqrt_ps(a.v)}; }
AGENTRL_INLINE V max(V a, V b) { return {_mm512_max_ps(a.v, b.v)}; }
AGENTRL_INLINE V min(V a, V b) { return {_mm512_min_ps(a.v, b.v)}; }
/** a * b + c, one rounding. */
AGENTRL_INLINE V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
/** c - a * b, one rounding. */
AGENTRL_INLINE V fnma(V a, V b, V c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
/** Per lane: a < b ? x : y (y when a or b is NaN). */
AGENTRL_INLINE V selectLess(V a, V b, V x, V y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
/** 2^n per lane for -126 <= n <= 127, from the bits of n + kRound (see exp). */
AGENTRL_INLINE V pow2FromRounded(V rounded) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_castps_si512(rounded.v), _mm512_set1_epi32(127)), 23))};
}
AGENTRL_INLINE float sum(V a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#elif defined(AGENTRL_ISA_AVX2)

struct V {
  __m256 lo, hi;
};
struct Mask {
  __m256i lo, hi;
};
AGENTRL_INLINE Mask firstLanes(size_t n) {
  const __m256i count = _mm256_set1_epi32(n > 16 ? 16 : static_cast<int>(n));
  return {_mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
          _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}
AGENTRL_INLINE V load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
AGENTRL_INLINE V load(const float* p, Mask m) { return {_mm256_maskload_ps(p, m.lo), _mm256_maskload_ps(p + 8, m.hi)}; }
template <typename Half>
AGENTRL_INLINE V load(const Half* p) {
  const auto* at = reinterpret_cast<const __m128i*>(p);
  return {widenEight(_mm_loadu_si128(at), Half{}), widenEight(_mm_loadu_si128(at + 1), Half{})};
}
/** There is no masked load of 16 bits. */
template <typename Half>
AGENTRL_INLINE V load(const Half* p, Mask m) {
  const int lanes = _mm256_movemask_ps(_mm256_castsi256_ps(m.lo)) | _mm256_movemask_ps(_mm256_castsi256_ps(m.hi)) << 8;
  Half copy[16] = {};
  memcpy(copy, p, static_cast<size_t>(__builtin_popcount(static_cast<unsigned>(lanes))) * sizeof(Half));
  return load(copy);
}
AGENTRL_INLINE void store(float* p, V a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
AGENTRL_INLINE void store(float* p, V a, Mask m) {
  _mm256_maskstore_ps(p, m.lo, a.lo);
  _mm256_maskstore_ps(p + 8, m.hi, a.hi);
}
AGENTRL_INLINE V zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
AGENTRL_INLINE V set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
AGENTRL_INLINE V add(V a, V b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
AGENTRL_INLINE V sub(V a, V b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
AGENTRL_INLINE V mul(V a, V b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
AGENTRL_INLINE V div(V a, V b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
AGENTRL_INLINE V sqrt(V a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
AGENTRL_INLINE V max(V a, V b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
AGENTRL_INLINE V min(V a, V b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
AGENTRL_INLINE V fma(V a, V b, V c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
AGENTRL_INLINE V fnma(V a, V b, V c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
AGENTRL_INLINE V selectLess(V a, V b, V x, V y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
AGENTRL_INLINE __m256 pow2FromRounded(__m256 rounded) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(rounded), _mm256_set1_epi32(127)), 23));
}
AGENTRL_INLINE V pow2FromRounded(V rounded) { return {pow2FromRounded(rounded.lo), pow2FromRounded(rounded.hi)}; }
AGENTRL_INLINE float sum(V a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#elif defined(AGENTRL_ISA_NEON)

struct V {
  float32x4_t q[4];
};
struct Mask {
  size_t n;
};
AGENTRL_INLINE Mask firstLanes(size_t n) { return {n > 16 ? 16 : n}; }
#define AGENTRL_EACH(expr) \
  V r;                     \
  for (int i = 0; i < 4; i++) r.q[i] = (expr); \
  return r
AGENTRL_INLINE V load(const float* p) { AGENTRL_EACH(vld1q_f32(p + 4 * i)); }
AGENTRL_INLINE float32x4_t widen(uint16x4_t x, F16) { return vcvt_f32_f16(vreinterpret_f16_u16(x)); }
AGENTRL_INLINE float32x4_t widen(uint16x4_t x, Bf16) { return vreinterpretq_f32_u32(vshll_n_u16(x, 16)); }
template <typename Half>
AGENTRL_INLINE V load(const Half* p) {
  AGENTRL_EACH(widen(vld1_u16(reinterpret_cast<const uint16_t*>(p + 4 * i)), Half{}));
}
AGENTRL_INLINE void store(float* p, V a) {
  for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, a.q[i]);
}
AGENTRL_INLINE V load(const float* p, Mask m) {
  float lanes[16] = {};
  memcpy(lanes, p, m.n * sizeof(float));
  return load(lanes);
}
template <typename Half>
AGENTRL_INLINE V load(const Half* p, Mask m) {
  Half lanes[16] = {};
  memcpy(lanes, p, m.n * sizeof(Half));
  return load(lanes);
}
AGENTRL_INLINE void store(float* p, V a, Mask m) {
  float lanes[16];
  store(lanes, a);
  memcpy(p, lanes, m.n * sizeof(float));
}
AGENTRL_INLINE V zero() { AGENTRL_EACH(vdupq_n_f32(0)); }
AGENTRL_INLINE V set1(float x) { AGENTRL_EACH(vdupq_n_f32(x)); }
AGENTRL_INLINE V add(V a, V b) { AGENTRL_EACH(vaddq_f32(a.q[i], b.q[i])); }
AGENTRL_INLINE V sub(V a, V b) { AGENTRL_EACH(vsubq_f32(a.q[i], b.q[i])); }
AGENTRL_INLINE V mul(V a, V b) { AGENTRL_EACH(vmulq_f32(a.q[i], b.q[i])); }
AGENTRL_INLINE V div(V a, V b) { AGENTRL_EACH(vdivq_f32(a.q[i], b.q[i])); }
AGENTRL_INLINE V sqrt(V a) { AGENTRL_EACH(vsqrtq_f32(a.q[i])); }
AGENTRL_INLINE V max(V a, V b) { AGENTRL_EACH(vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i])); }
AGENTRL_INLINE V min(V a, V b) { AGENTRL_EACH(vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i])); }
AGENTRL_INLINE V fma(V a, V b, V c) { AGENTRL_EACH(vfmaq_f32(c.q[i], a.q[i], b.q[i])); }
AGENTRL_INLINE V fnma(V a, V b, V c) { AGENTRL_EACH(vfmsq_f32(c.q[i], a.q[i], b.q[i])); }
AGENTRL_INLINE V selectLess(V a, V b, V x, V y) { AGENTRL_EACH(vbslq_f32(vcltq_f32(a.q[i], b.q[i]), x.q[i], y.q[i])); }
AGENTRL_INLINE V pow2FromRounded(V rounded) {
  AGENTRL_EACH(vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vreinterpretq_s32_f32(rounded.q[i]), vdupq_n_s32(127)), 23)));
}
#undef AGENTRL_EACH
AGENTRL_INLINE float sum(V a) {
  const float32x4_t four = vaddq_f32(vaddq_f32(a.q[0], a.q[2]), vaddq_f32(a.q[1], a.q[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

#else  // plain C++: correct everywhere, fast nowhere. fmaf is exact whether or not the machine has the instruction.

struct V {
  float l[16];
};
struct Mask {
  size_t n;
};
AGENTRL_INLINE Mask firstLanes(size_t n) { return {n > 16 ? 16 : n}; }
#define AGENTRL_EACH(expr) \
  V r;                     \
  for (int i = 0; i < 16; i++) r.l[i] = (expr); \
  return r
AGENTRL_INLINE V load(const float* p) { AGENTRL_EACH(p[i]); }
AGENTRL_INLINE V load(const float* p, Mask m) { AGENTRL_EACH(static_cast<size_t>(i) < m.n ? p[i] : 0.0f); }
template <typename Half>
AGENTRL_INLINE V load(const Half* p) { AGENTRL_EACH(number(p[i])); }
template <typename Half>
AGENTRL_INLINE V load(const Half* p, Mask m) { AGENTRL_EACH(static_cast<size_t>(i) < m.n ? number(p[i]) : 0.0f); }
AGENTRL_INLINE void store(float* p, V a) { memcpy(p, a.l, sizeof a.l); }
AGENTRL_INLINE void store(float* p, V a, Mask m) { memcpy(p, a.l, m.n * sizeof(float)); }
AGENTRL_INLINE V zero() { AGENTRL_EACH(0.0f); }
AGENTRL_INLINE V set1(float x) { AGENTRL_EACH(x); }
AGENTRL_INLINE V add(V a, V b) { AGENTRL_EACH(a.l[i] + b.l[i]); }
AGENTRL_INLINE V sub(V a, V b) { AGENTRL_EACH(a.l[i] - b.l[i]); }
AGENTRL_INLINE V mul(V a, V b) { AGENTRL_EACH(a.l[i] * b.l[i]); }
AGENTRL_INLINE V div(V a, V b) { AGENTRL_EACH(a.l[i] / b.l[i]); }
AGENTRL_INLINE V sqrt(V a) { AGENTRL_EACH(__builtin_sqrtf(a.l[i])); }
AGENTRL_INLINE V max(V a, V b) { AGENTRL_EACH(a.l[i] > b.l[i] ? a.l[i] : b.l[i]); }
AGENTRL_INLINE V min(V a, V b) { AGENTRL_EACH(a.l[i] < b.l[i] ? a.l[i] : b.l[i]); }
AGENTRL_INLINE V fma(V a, V b, V c) { AGENTRL_EACH(__builtin_fmaf(a.l[i], b.l[i], c.l[i])); }
AGENTRL_INLINE V fnma(V a, V b, V c) { AGENTRL_EACH(__builtin_fmaf(-a.l[i], b.l[i], c.l[i])); }
AGENTRL_INLINE V selectLess(V a, V b, V x, V y) { AGENTRL_EACH(a.l[i] < b.l[i] ? x.l[i] : y.l[i]); }
AGENTRL_INLINE V pow2FromRounded(V rounded) {
  uint32_t bits[16];
  memcpy(bits, rounded.l, sizeof bits);
  for (int i = 0; i < 16; i++) bits[i] = (bits[i] + 127u) << 23;
  V r;
  memcpy(r.l, bits, sizeof bits);
  return r;
}
#undef AGENTRL_EACH
AGENTRL_INLINE float sum(V a) {
  for (int width = 8; width >= 1; width /= 2)
    for (int i = 0; i < width; i++) a.l[i] = a.l[i] + a.l[i + width];
  return a.l[0];
}

#endif

// ---- Written once on top ----

/** Masked by count, for tails: first n lanes (n >= 1). */
template <typename B>
AGENTRL_INLINE V load(const B* p, size_t n) {
  return load(p, firstLanes(n));
}
AGENTRL_INLINE void store(float* p, V a, size_t n) { store(p, a, firstLanes(n)); }

AGENTRL_INLINE V neg(V a) { return sub(zero(), a); }

/** The largest lane; a lane that is NaN may be passed over. Exact, so order does not matter. */
AGENTRL_INLINE float maxLane(V a) {
  float lanes[kLanes];
  store(lanes, a);
  for (int width = kLanes / 2; width >= 1; width /= 2)
    for (int i = 0; i < width; i++) lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  return lanes[0];
}

/**
 * e^x, error below 1 ulp or so: x = n ln 2 + r, |r| <= ln 2 / 2, polynomial of degree 6 in r (Cephes expf), then 2^n in
 * two halves so that neither overflows. Below -87.33 (where the result would be subnormal) it is 0; NaN stays NaN.
 */
AGENTRL_INLINE V exp(V x) {
  const V kLowest = set1(-87.3365447505531f);
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low mantissa bits.
  const V kRound = set1(12582912.0f);
  const V clamped = max(kLowest, min(set1(89.0f), x));
  const V rounded = fma(clamped, set1(1.44269504088896341f), kRound);
  const V n = sub(rounded, kRound);
  V r = fnma(n, set1(0.693359375f), clamped);
  r = fnma(n, set1(-2.12194440e-4f), r);
  V p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = add(fma(p, mul(r, r), r), set1(1.0f));
  const V halfRounded = fma(n, set1(0.5f), kRound);
  const V otherRounded = add(sub(n, sub(halfRounded, kRound)), kRound);
  const V y = mul(mul(p, pow2FromRounded(halfRounded)), pow2FromRounded(otherRounded));
  return selectLess(x, kLowest, zero(), y);
}

/** exp of one number, the same bits as a lane of the vector form. */
AGENTRL_INLINE float exp1(float x) {
  float lanes[kLanes];
  store(lanes, exp(set1(x)));
  return lanes[0];
}

AGENTRL_INLINE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

}  // namespace agentrl::AGENTRL_ISA
