// Every instruction set gives exactly the chain of fused multiply-adds over k ascending, for any shape, layout and
// number of threads, and touches nothing outside its operands (run it with the address sanitizer).
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "../kernels.h"
#include "check.h"

using namespace agentrl;

static std::mt19937 random32(1);

/** Allocated to the exact size, so that the sanitizer sees a step outside. */
static std::unique_ptr<float[]> numbers(size_t count) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  auto values = std::make_unique<float[]>(count);
  for (size_t i = 0; i < count; i++) values[i] = uniform(random32);
  return values;
}

/** What b is stored as, beside float32: the same numbers in 16 bits give the same bits. */
struct Copies {
  std::unique_ptr<uint16_t[]> f16, bf16;
};

/** Numbers whose fraction has 7 bits, so that both types of 16 bits hold them; and those. */
static std::unique_ptr<float[]> shortNumbers(size_t count, Copies& copies) {
  auto values = numbers(count);
  copies = {std::make_unique<uint16_t[]>(count), std::make_unique<uint16_t[]>(count)};
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    bits &= 0xffff0000;
    // Smaller numbers are float16's subnormal ones, or 0.
    if ((bits & 0x7fffffff) < 0x38800000) bits = 0;
    std::memcpy(&values[i], &bits, sizeof bits);
    copies.bf16[i] = static_cast<uint16_t>(bits >> 16);
    const uint32_t magnitude = bits & 0x7fffffff;
    copies.f16[i] =
        static_cast<uint16_t>((bits >> 16 & 0x8000) | (magnitude == 0 ? 0 : (magnitude - (112u << 23)) >> 13));
  }
  return values;
}

static void check(Layout layout, size_t m, size_t n, size_t k, bool withBias, bool accumulate) {
  const auto a = numbers(m * k), bias = numbers(n), start = numbers(m * n);
  Copies copies;
  const auto b = shortNumbers(k * n, copies);
  auto expected = std::make_unique<float[]>(m * n);
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < n; j++) {
      float x = withBias ? bias[j] : 0.0f;
      if (accumulate) x = withBias ? start[i * n + j] + x : start[i * n + j];
      for (size_t p = 0; p < k; p++)
        x = std::fma(layout == Layout::tn ? a[p * m + i] : a[i * k + p], layout == Layout::nt ? b[j * k + p] : b[p * n + j], x);
      expected[i * n + j] = x;
    }
  for (size_t isa = 0; availableKernels(isa) != nullptr; isa++) {
    CHECK(selectKernels(availableKernels(isa)));
    for (int threads : {1, 3}) {
      Pool::shared().setThreads(threads);
      for (const Stored& stored : {Stored{b.get(), Number::f32}, Stored{copies.f16.get(), Number::f16},
                                   Stored{copies.bf16.get(), Number::bf16}}) {
        auto out = std::make_unique<float[]>(m * n);
        std::memcpy(out.get(), start.get(), m * n * sizeof(float));
        kernels().matmul({layout, a.get(), stored, out.get(), withBias ? bias.get() : nullptr, accumulate, m, n, k},
                         Pool::shared());
        for (size_t i = 0; i < m * n; i++)
          CHECK(std::memcmp(&out[i], &expected[i], sizeof(float)) == 0,
                "%s, %d threads, layout %d, b of type %d, %zux%zux%zu, element %zu: %.9g, not %.9g", kernels().name,
                threads, static_cast<int>(layout), static_cast<int>(stored.type), m, n, k, i,
                static_cast<double>(out[i]), static_cast<double>(expected[i]));
      }
    }
  }
}

int main() {
  for (Layout layout : {Layout::nn, Layout::nt, Layout::tn}) {
    for (size_t m : {1, 2, 3, 6, 7, 14, 15, 29, 65})
      for (size_t n : {1, 15, 17, 32, 33, 129}) check(layout, m, n, 1 + (m * n) % 23, m % 2 == 0, n % 2 == 0);
    check(layout, 66, 530, 390, true, false);
    check(layout, 17, 1030, 50, false, true);
    check(layout, 4, 9, 0, true, true);
  }
  return 0;
}
