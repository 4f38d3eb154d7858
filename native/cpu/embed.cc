// The embedding and its gradient.
#include "kernels.h"
#include "simd.h"

namespace agentrl::AGENTRL_ISA {

void embed(const EmbedArgs& x, Pool& pool) {
  // Rows per chunk: at least some 128 KiB of copying.
  const size_t grain = 1 + 32768 / (x.dim + 1);
  withType(x.table, [&](const auto* table) {
    pool.parallelFor(x.rows, grain, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; r++) {
        const auto* from = table + x.ids[r] * x.dim;
        float* to = x.out + r * x.dim;
        size_t i = 0;
        for (; i + kLanes <= x.dim; i += kLanes) store(to + i, load(from + i));
        if (i < x.dim) store(to + i, load(from + i, x.dim - i), x.dim - i);
      }
    });
  });
}

// Rows are added in ascending order for every table row. Threads own bands of columns, so no two of them touch one
// element.
void embedBackward(const EmbedBackwardArgs& x, Pool& pool) {
  constexpr size_t kBand = 4 * kLanes;
  const size_t bands = (x.dim + kBand - 1) / kBand;
  // Bands per chunk: at least some tens of thousands of additions.
  const size_t grain = 1 + 32768 / (x.rows * kBand + 1);
  pool.parallelFor(bands, grain, [&](size_t begin, size_t end) {
    const size_t from = begin * kBand, to = end * kBand < x.dim ? end * kBand : x.dim;
    for (size_t r = 0; r < x.rows; r++) {
      const float* d = x.dOut + r * x.dim;
      float* t = x.dTable + x.ids[r] * x.dim;
      size_t i = from;
      for (; i + kLanes <= to; i += kLanes) store(t + i, add(load(t + i), load(d + i)));
      if (i < to) store(t + i, add(load(t + i, to - i), load(d + i, to - i)), to - i);
    }
  });
}

}  // namespace agentrl::AGENTRL_ISA
