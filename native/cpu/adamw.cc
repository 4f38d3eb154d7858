// AdamW (Loshchilov & Hutter 2019, Algorithm 2) and the sum of squares that gradient clipping needs.
#include "kernels.h"
#include "simd.h"

namespace agentrl::AGENTRL_ISA {

void adamw(const AdamwArgs& x, Pool& pool) {
  const V beta1 = set1(static_cast<float>(x.beta1)), rest1 = set1(static_cast<float>(1.0 - x.beta1));
  const V beta2 = set1(static_cast<float>(x.beta2)), rest2 = set1(static_cast<float>(1.0 - x.beta2));
  const V correct1 = set1(static_cast<float>(1.0 / (1.0 - __builtin_pow(x.beta1, x.step))));
  const V correct2 = set1(static_cast<float>(1.0 / (1.0 - __builtin_pow(x.beta2, x.step))));
  const V eps = set1(static_cast<float>(x.eps)), lr = set1(static_cast<float>(x.lr));
  const V decay = set1(static_cast<float>(x.weightDecay)), scale = set1(static_cast<float>(x.gradScale));
  const auto step = [&](size_t i, Mask mask) {
    const V g = mul(load(x.grad + i, mask), scale);
    const V m = fma(beta1, load(x.m + i, mask), mul(rest1, g));
    const V v = fma(beta2, load(x.v + i, mask), mul(rest2, mul(g, g)));
    const V p = load(x.param + i, mask);
    const V direction = div(mul(m, correct1), add(sqrt(mul(v, correct2)), eps));
    store(x.m + i, m, mask);
    store(x.v + i, v, mask);
    store(x.out + i, fnma(lr, fma(decay, p, direction), p), mask);
  };
  pool.parallelFor(x.length, 4096, [&](size_t begin, size_t end) {
    const Mask all = firstLanes(kLanes);
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) step(i, all);
    if (i < end) step(i, firstLanes(end - i));
  });
}

// Blocks of 4096 elements, each 16 chains of fused multiply-adds and one tree; block sums are added in order in double.
void sumSquares(const SumSquaresArgs& x, Pool& pool) {
  constexpr size_t kBlock = 4096;
  const size_t blocks = (x.length + kBlock - 1) / kBlock;
  float* sums = Pool::scratch(Pool::kShared, blocks);
  pool.parallelFor(blocks, 4, [&](size_t begin, size_t end) {
    for (size_t b = begin; b < end; b++) {
      const size_t from = b * kBlock, to = from + kBlock < x.length ? from + kBlock : x.length;
      V acc = zero();
      size_t i = from;
      for (; i + kLanes <= to; i += kLanes) {
        const V v = load(x.x + i);
        acc = fma(v, v, acc);
      }
      if (i < to) {
        const V v = load(x.x + i, to - i);
        acc = fma(v, v, acc);
      }
      sums[b] = sum(acc);
    }
  });
  double total = 0;
  for (size_t b = 0; b < blocks; b++) total += static_cast<double>(sums[b]);
  *x.result = total;
}

}  // namespace agentrl::AGENTRL_ISA
