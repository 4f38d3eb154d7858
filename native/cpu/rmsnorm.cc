// RMSNorm (Zhang & Sennrich 2019): y = x r w with r = 1 / sqrt(mean(x^2) + eps), and its gradient
//   dx = r (dy w) - x r^3 / dim * sum(dy w x),   dw = sum over rows of dy x r.
#include "kernels.h"
#include "simd.h"

namespace agentrl::AGENTRL_ISA {

namespace {

// Elements that are worth handing to another thread.
constexpr size_t kGrain = 8192;
// Columns of dWeight that one walk down the rows keeps in registers.
constexpr size_t kColumnVectors = 4;

/** Sum of term(i, mask) over vectors of a row: four running sums in turn, then one tree. Depends on `dim` only. */
template <typename Term>
AGENTRL_INLINE float rowSum(size_t dim, const Term& term) {
  V total[4] = {zero(), zero(), zero(), zero()};
  size_t i = 0;
  for (; i + 4 * kLanes <= dim; i += 4 * kLanes)
    for (size_t lane = 0; lane < 4; lane++) total[lane] = term(i + lane * kLanes, firstLanes(kLanes), total[lane]);
  for (size_t lane = 0; i < dim; i += kLanes, lane++) total[lane] = term(i, firstLanes(dim - i), total[lane]);
  return sum(add(add(total[0], total[2]), add(total[1], total[3])));
}

template <typename Fn>
AGENTRL_INLINE void forVectors(size_t dim, const Fn& fn) {
  for (size_t i = 0; i < dim; i += kLanes) fn(i, firstLanes(dim - i));
}

/** By columns, rows ascending. */
void weightGradient(const RmsNormBackwardArgs& a, Pool& pool) {
  const size_t columns = kColumnVectors * kLanes;
  const size_t rowsOfGrain = 1 + kGrain / (a.rows * columns + 1);
  pool.parallelFor((a.dim + columns - 1) / columns, rowsOfGrain, [&](size_t begin, size_t end) {
    for (size_t panel = begin; panel < end; panel++) {
      const size_t first = panel * columns;
      Mask masks[kColumnVectors];
      V total[kColumnVectors];
      for (size_t v = 0; v < kColumnVectors; v++) {
        const size_t at = first + v * kLanes;
        masks[v] = firstLanes(a.dim > at ? a.dim - at : 0);
        total[v] = load(a.dWeight + at, masks[v]);
      }
      for (size_t row = 0; row < a.rows; row++) {
        const V r = set1(a.invRms[row]);
        const size_t at = row * a.dim + first;
        for (size_t v = 0; v < kColumnVectors; v++) {
          const V normed = mul(load(a.x + at + v * kLanes, masks[v]), r);
          total[v] = fma(load(a.dOut + at + v * kLanes, masks[v]), normed, total[v]);
        }
      }
      for (size_t v = 0; v < kColumnVectors; v++) store(a.dWeight + first + v * kLanes, total[v], masks[v]);
    }
  });
}

}  // namespace

void rmsNorm(const RmsNormArgs& a, Pool& pool) {
  pool.parallelFor(a.rows, 1 + kGrain / (a.dim + 1), [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; row++) {
      const float* x = a.x + row * a.dim;
      float* out = a.out + row * a.dim;
      const float squares = rowSum(a.dim, [&](size_t i, Mask mask, V total) {
        const V v = load(x + i, mask);
        return fma(v, v, total);
      });
      const float r = 1.0f / __builtin_sqrtf(squares / static_cast<float>(a.dim) + a.eps);
      a.invRms[row] = r;
      forVectors(a.dim, [&](size_t i, Mask mask) {
        store(out + i, mul(mul(load(x + i, mask), set1(r)), load(a.weight + i, mask)), mask);
      });
    }
  });
}

void rmsNormBackward(const RmsNormBackwardArgs& a, Pool& pool) {
  // First, since dX may lie where dOut does.
  if (a.dWeight != nullptr) weightGradient(a, pool);
  pool.parallelFor(a.rows, 1 + kGrain / (a.dim + 1), [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; row++) {
      const float *x = a.x + row * a.dim, *dOut = a.dOut + row * a.dim;
      float* dX = a.dX + row * a.dim;
      const float dot = rowSum(a.dim, [&](size_t i, Mask mask, V total) {
        return fma(mul(load(dOut + i, mask), load(a.weight + i, mask)), load(x + i, mask), total);
      });
      const float r = a.invRms[row];
      const V inverse = set1(r), along = set1(r * r * r * dot / static_cast<float>(a.dim));
      forVectors(a.dim, [&](size_t i, Mask mask) {
        const V straight = mul(mul(load(dOut + i, mask), load(a.weight + i, mask)), inverse);
        const V d = fnma(load(x + i, mask), along, straight);
        store(dX + i, a.accumulate ? add(load(dX + i, mask), d) : d, mask);
      });
    }
  });
}

}  // namespace agentrl::AGENTRL_ISA
