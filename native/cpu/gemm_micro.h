// The innermost loop of the matrix product: a tile of rows x vectors kept in registers while k runs. It starts from what
// c (and bias) hold and stores the sums back, so that a long k may be cut into blocks without changing the chain.
#pragma once

#include "simd.h"

namespace agentrl::AGENTRL_ISA {

// Rows and 16-lane vectors of the widest tile; accumulators and two operands fill the register file: AVX-512 28 of 32
// registers, AVX2 12 of 16, NEON 24 of 32.
#if defined(AGENTRL_ISA_AVX512)
constexpr int kTileRows = 14;
constexpr int kTileVectors = 2;
#elif defined(AGENTRL_ISA_AVX2) || defined(AGENTRL_ISA_NEON)
constexpr int kTileRows = 6;
constexpr int kTileVectors = 1;
#else
constexpr int kTileRows = 4;
constexpr int kTileVectors = 1;
#endif
constexpr size_t kPanel = kTileVectors * kLanes;

/** B: what b consists of, float, F16 or Bf16. */
template <typename B>
struct TileOf {
  const float* a;
  // Distance in a between rows when a is stored by rows, between steps of k when it is stored by columns.
  size_t aStride;
  const B* b;
  size_t bStride;
  float* c;
  size_t cStride;
  const float* bias;  // of the first column, or null
  bool accumulate;
  size_t k;
  size_t columns;  // columns that exist: the rest of the last vector is neither read nor written
};

using Tile = TileOf<float>;

enum class AOrder { rows, columns };

template <int Rows, int Vectors, AOrder Order, bool Tail, typename B = float>
void tile(const TileOf<B>& t) {
  // All loops over rows and vectors are unrolled, so that the array lives in registers from beginning to end.
  V acc[Rows][Vectors];
  Mask masks[Vectors];
  if constexpr (Tail)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; v++) {
      const size_t before = static_cast<size_t>(v) * kLanes;
      masks[v] = firstLanes(t.columns > before ? t.columns - before : 0);
    }
  const auto loadAt = [&](const auto* p, int v) __attribute__((always_inline)) {
    if constexpr (Tail)
      return load(p + v * kLanes, masks[v]);
    else
      return load(p + v * kLanes);
  };

#pragma GCC unroll 16
  for (int v = 0; v < Vectors; v++) {
    const V bias = t.bias != nullptr ? loadAt(t.bias, v) : zero();
#pragma GCC unroll 16
    for (int r = 0; r < Rows; r++) acc[r][v] = bias;
  }
  if (t.accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; r++)
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; v++) {
        const V old = loadAt(t.c + static_cast<size_t>(r) * t.cStride, v);
        acc[r][v] = t.bias != nullptr ? add(old, acc[r][v]) : old;
      }
  }

  // Rows three to a pointer: pointer + {0, 1, 2} * stride are single address operands, and the pointers fit the
  // general registers.
  constexpr int kPointers = (Rows + 2) / 3;
  const char* a[kPointers];
  const size_t stride = t.aStride * sizeof(float);
  if constexpr (Order == AOrder::rows)
#pragma GCC unroll 16
    for (int g = 0; g < kPointers; g++) a[g] = reinterpret_cast<const char*>(t.a) + static_cast<size_t>(3 * g) * stride;
  else
    a[0] = reinterpret_cast<const char*>(t.a);
  const B* b = t.b;
  const size_t bStride = t.bStride;

  const auto step = [&]() __attribute__((always_inline)) {
    V bv[Vectors];
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; v++) bv[v] = loadAt(b, v);
    b += bStride;
#pragma GCC unroll 16
    for (int r = 0; r < Rows; r++) {
      const char* p;
      if constexpr (Order == AOrder::rows)
        p = a[r / 3] + static_cast<size_t>(r % 3) * stride;
      else
        p = a[0] + static_cast<size_t>(r) * sizeof(float);
      const V av = set1(*reinterpret_cast<const float*>(p));
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; v++) acc[r][v] = fma(av, bv[v], acc[r][v]);
    }
    if constexpr (Order == AOrder::rows)
#pragma GCC unroll 16
      for (int g = 0; g < kPointers; g++) a[g] += sizeof(float);
    else
      a[0] += stride;
  };
  for (size_t p = 0; p < t.k; p++) step();

#pragma GCC unroll 16
  for (int r = 0; r < Rows; r++)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; v++) {
      float* out = t.c + static_cast<size_t>(r) * t.cStride + v * kLanes;
      if constexpr (Tail)
        store(out, acc[r][v], masks[v]);
      else
        store(out, acc[r][v]);
    }
}

}  // namespace agentrl::AGENTRL_ISA
