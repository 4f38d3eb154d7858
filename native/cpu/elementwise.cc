// add, scale, rounding to float16 and SwiGLU: one pass over memory, split over elements.
#include <algorithm>
#include <bit>

#include "kernels.h"
#include "simd.h"

namespace agentrl::AGENTRL_ISA {

namespace {

// Elements per chunk that are worth handing to another thread (some microseconds of work).
constexpr size_t kGrain = 8192;

/** fn(i, n) for i = begin, begin + 16, ...: n = 16 lanes, fewer at the end. */
template <typename Fn>
AGENTRL_INLINE void lanes(size_t begin, size_t end, const Fn& fn) {
  size_t i = begin;
  for (; i + kLanes <= end; i += kLanes) fn(i, size_t{kLanes});
  if (i < end) fn(i, end - i);
}

// Bit patterns of float32.
constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kSmallestNormalHalf = 0x38800000;  // 2^-14
constexpr uint32_t kLargestHalf = 0x477fe000;         // 65504

/** The nearest float16, ties to even, as a float32: float16 has 13 bits less. */
AGENTRL_INLINE uint32_t nearestHalf(uint32_t bits) {
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t rounded = (magnitude + 0xfff + (magnitude >> 13 & 1)) & ~uint32_t{0x1fff};
  const uint32_t finite = std::min(rounded, kLargestHalf) | (bits & kSign);
  const uint32_t number = magnitude < kSmallestNormalHalf ? 0 : finite;
  return magnitude > kInfinity ? bits : number;
}

/** 1 / (1 + e^-x) */
AGENTRL_INLINE V sigmoid(V x) { return div(set1(1.0f), add(set1(1.0f), exp(neg(x)))); }

}  // namespace

void add(const AddArgs& x, Pool& pool) {
  pool.parallelFor(x.length, kGrain, [&](size_t begin, size_t end) {
    lanes(begin, end, [&](size_t i, size_t n) { store(x.out + i, add(load(x.a + i, n), load(x.b + i, n)), n); });
  });
}

void scale(const ScaleArgs& x, Pool& pool) {
  const V factor = set1(x.factor);
  pool.parallelFor(x.length, kGrain, [&](size_t begin, size_t end) {
    lanes(begin, end, [&](size_t i, size_t n) { store(x.out + i, mul(load(x.x + i, n), factor), n); });
  });
}

void roundHalf(const RoundHalfArgs& x, Pool& pool) {
  pool.parallelFor(x.length, kGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) x.out[i] = std::bit_cast<float>(nearestHalf(std::bit_cast<uint32_t>(x.x[i])));
  });
}

void swiglu(const SwigluArgs& x, Pool& pool) {
  pool.parallelFor(x.length, kGrain / 4, [&](size_t begin, size_t end) {
    lanes(begin, end, [&](size_t i, size_t n) {
      const V gate = load(x.gate + i, n);
      store(x.out + i, mul(mul(gate, sigmoid(gate)), load(x.up + i, n)), n);
    });
  });
}

// silu(g) = g s(g), silu'(g) = s (1 + g (1 - s)).
void swigluBackward(const SwigluBackwardArgs& x, Pool& pool) {
  pool.parallelFor(x.length, kGrain / 4, [&](size_t begin, size_t end) {
    lanes(begin, end, [&](size_t i, size_t n) {
      const V gate = load(x.gate + i, n);
      const V dOut = load(x.dOut + i, n);
      const V up = load(x.up + i, n);
      const V s = sigmoid(gate);
      const V slope = mul(s, fma(gate, sub(set1(1.0f), s), set1(1.0f)));
      store(x.dGate + i, mul(mul(dOut, up), slope), n);
      store(x.dUp + i, mul(dOut, mul(gate, s)), n);
    });
  });
}

}  // namespace agentrl::AGENTRL_ISA
