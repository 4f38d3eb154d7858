// add, scale, rounding to 16 bits and SwiGLU: one pass over memory, split over elements.
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
constexpr uint32_t kQuiet = 0x00400000;  // set in a NaN, so that it stays one without its lower half

/** What float32 is rounded to: bits dropped of its fraction; the smallest normal number and the largest, as float32. */
struct ToF16 {
  static constexpr uint32_t kDropped = 13, kSmallest = 0x38800000, kLargest = 0x477fe000;  // 2^-14, 65504
  /** The 16 bits of such a number. Exponents start 112 below float32's. */
  static uint16_t encode(uint32_t bits) {
    const uint32_t magnitude = bits & ~kSign;
    const uint32_t finite = magnitude == 0 ? 0 : (magnitude - (112u << 23)) >> 13;
    return static_cast<uint16_t>((bits >> 16 & 0x8000) | (magnitude > kInfinity ? 0x7e00 : finite));
  }
};
struct ToBf16 {
  static constexpr uint32_t kDropped = 16, kSmallest = 0x00800000, kLargest = 0x7f7f0000;  // 2^-126, 2^128 - 2^120
  static uint16_t encode(uint32_t bits) { return static_cast<uint16_t>(bits >> 16); }
};

/** The nearest number of that type, ties to even, as a float32. */
template <typename To>
AGENTRL_INLINE uint32_t nearest(uint32_t bits) {
  constexpr uint32_t kUnit = uint32_t{1} << To::kDropped;
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t rounded = (magnitude + (kUnit / 2 - 1) + (magnitude >> To::kDropped & 1)) & ~(kUnit - 1);
  const uint32_t finite = std::min(rounded, To::kLargest) | (bits & kSign);
  const uint32_t number = magnitude < To::kSmallest ? 0 : finite;
  return magnitude > kInfinity ? bits | kQuiet : number;
}

template <typename To>
void roundTo(const RoundHalfArgs& x, Pool& pool) {
  pool.parallelFor(x.length, kGrain, [&](size_t begin, size_t end) {
    const auto at = [&](size_t i) __attribute__((always_inline)) { return nearest<To>(std::bit_cast<uint32_t>(x.x[i])); };
    if (x.stored == Number::f32) {
      auto* out = static_cast<float*>(x.out);
      for (size_t i = begin; i < end; i++) out[i] = std::bit_cast<float>(at(i));
    } else {
      auto* out = static_cast<uint16_t*>(x.out);
      for (size_t i = begin; i < end; i++) out[i] = To::encode(at(i));
    }
  });
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
  return x.rounded == Number::f16 ? roundTo<ToF16>(x, pool) : roundTo<ToBf16>(x, pool);
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
