// Copies of operands, as float32, in the order in which the innermost loop reads them.
#pragma once

#include "gemm_micro.h"

namespace agentrl::AGENTRL_ISA {

/** dst[p * dstStride + j] = src[j * srcStride + p] for j, p < kTranspose. */
#if defined(AGENTRL_ISA_AVX512) || defined(AGENTRL_ISA_AVX2)
constexpr size_t kTranspose = 8;
AGENTRL_INLINE __m256 loadPair(const float* low, const float* high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
template <typename Half>
AGENTRL_INLINE __m256 loadPair(const Half* low, const Half* high) {
  const __m128i both = _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(low)),
                                          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(high)));
  return widenEight(both, Half{});
}
/** out[p] holds src[j * stride + p], j = 0..7. */
template <typename B>
AGENTRL_INLINE void loadTransposed(const B* src, size_t stride, __m256 out[8]) {
  // Rows j and j + 4 share a register, so that the last exchange of halves is done by the loads.
  const auto pair = [&](size_t j, size_t p) __attribute__((always_inline)) {
    return loadPair(src + j * stride + p, src + (j + 4) * stride + p);
  };
  for (size_t p = 0; p < 8; p += 4) {
    const __m256 r0 = pair(0, p), r1 = pair(1, p), r2 = pair(2, p), r3 = pair(3, p);
    const __m256 t0 = _mm256_unpacklo_ps(r0, r1), t1 = _mm256_unpackhi_ps(r0, r1);
    const __m256 t2 = _mm256_unpacklo_ps(r2, r3), t3 = _mm256_unpackhi_ps(r2, r3);
    out[p + 0] = _mm256_shuffle_ps(t0, t2, 0x44);
    out[p + 1] = _mm256_shuffle_ps(t0, t2, 0xee);
    out[p + 2] = _mm256_shuffle_ps(t1, t3, 0x44);
    out[p + 3] = _mm256_shuffle_ps(t1, t3, 0xee);
  }
}
template <typename B>
AGENTRL_INLINE void transposeBlock(const B* src, size_t srcStride, float* dst, size_t dstStride) {
  __m256 columns[8];
  loadTransposed(src, srcStride, columns);
  for (size_t p = 0; p < 8; p++) _mm256_storeu_ps(dst + p * dstStride, columns[p]);
}
#elif defined(AGENTRL_ISA_NEON)
constexpr size_t kTranspose = 4;
AGENTRL_INLINE float32x4_t loadFour(const float* p) { return vld1q_f32(p); }
template <typename Half>
AGENTRL_INLINE float32x4_t loadFour(const Half* p) {
  return widen(vld1_u16(reinterpret_cast<const uint16_t*>(p)), Half{});
}
template <typename B>
AGENTRL_INLINE void transposeBlock(const B* src, size_t srcStride, float* dst, size_t dstStride) {
  const float32x4_t r0 = loadFour(src), r1 = loadFour(src + srcStride);
  const float32x4_t r2 = loadFour(src + 2 * srcStride), r3 = loadFour(src + 3 * srcStride);
  const float32x4x2_t t01 = vtrnq_f32(r0, r1), t23 = vtrnq_f32(r2, r3);
  vst1q_f32(dst, vcombine_f32(vget_low_f32(t01.val[0]), vget_low_f32(t23.val[0])));
  vst1q_f32(dst + dstStride, vcombine_f32(vget_low_f32(t01.val[1]), vget_low_f32(t23.val[1])));
  vst1q_f32(dst + 2 * dstStride, vcombine_f32(vget_high_f32(t01.val[0]), vget_high_f32(t23.val[0])));
  vst1q_f32(dst + 3 * dstStride, vcombine_f32(vget_high_f32(t01.val[1]), vget_high_f32(t23.val[1])));
}
#else
constexpr size_t kTranspose = 1;
template <typename B>
AGENTRL_INLINE void transposeBlock(const B* src, size_t, float* dst, size_t) {
  *dst = number(*src);
}
#endif

/** dst[p * dstStride + j] = src[j * srcStride + p] for j < rows, p < columns. */
template <typename B>
void transpose(const B* src, size_t srcStride, size_t rows, size_t columns, float* dst, size_t dstStride) {
  const size_t wholeRows = rows / kTranspose * kTranspose, wholeColumns = columns / kTranspose * kTranspose;
  for (size_t j = 0; j < wholeRows; j += kTranspose) {
    for (size_t p = 0; p < wholeColumns; p += kTranspose)
      transposeBlock(src + j * srcStride + p, srcStride, dst + p * dstStride + j, dstStride);
    for (size_t p = wholeColumns; p < columns; p++)
      for (size_t i = j; i < j + kTranspose; i++) dst[p * dstStride + i] = number(src[i * srcStride + p]);
  }
  for (size_t p = 0; p < columns; p++)
    for (size_t j = wholeRows; j < rows; j++) dst[p * dstStride + j] = number(src[j * srcStride + p]);
}

/** dst[p * width + j] = src[j * stride + p] for j < columns, p < k; 0 for columns <= j < width. */
template <typename B>
void packTransposed(const B* src, size_t stride, size_t columns, size_t k, float* dst, size_t width) {
  transpose(src, stride, columns, k, dst, width);
  if (columns == width) return;
  for (size_t p = 0; p < k; p++)
    for (size_t j = columns; j < width; j++) dst[p * width + j] = 0.0f;
}

/** dst[p * width + j] = src[p * stride + j] for j < columns, p < k; 0 for columns <= j < width. */
template <typename B>
void packCopied(const B* src, size_t stride, size_t columns, size_t k, float* dst, size_t width) {
  for (size_t j = 0; j < width; j += kLanes) {
    const Mask from = firstLanes(columns > j ? columns - j : 0), to = firstLanes(width - j);
    if (columns >= j + kLanes)
      for (size_t p = 0; p < k; p++) store(dst + p * width + j, load(src + p * stride + j));
    else
      for (size_t p = 0; p < k; p++) store(dst + p * width + j, load(src + p * stride + j, from), to);
  }
}

}  // namespace agentrl::AGENTRL_ISA
