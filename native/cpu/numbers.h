// How numbers are stored. Weights may have 16 bits; they are computed with as float32, which holds each of them exactly.
#pragma once

#include <cstddef>
#include <cstdint>

namespace agentrl {

/** IEEE 754 binary16. */
struct F16 {
  uint16_t bits;
};
/** The upper half of a float32. */
struct Bf16 {
  uint16_t bits;
};

enum class Number { f32, f16, bf16 };

// Always inlined: kernels are compiled for several instruction sets, and would share the copy of one.
[[gnu::always_inline]] inline size_t bytesOf(Number type) { return type == Number::f32 ? 4 : 2; }

/** Numbers in memory, of a type that is known when the program runs. */
struct Stored {
  const void* data;
  Number type;

  /** From the i-th number on. */
  [[gnu::always_inline]] Stored from(size_t i) const { return {static_cast<const char*>(data) + i * bytesOf(type), type}; }
};

/** fn(pointer of the numbers' type) */
template <typename Fn>
void withType(const Stored& x, const Fn& fn) {
  switch (x.type) {
    case Number::f32:
      return fn(static_cast<const float*>(x.data));
    case Number::f16:
      return fn(static_cast<const F16*>(x.data));
    case Number::bf16:
      return fn(static_cast<const Bf16*>(x.data));
  }
}

}  // namespace agentrl
