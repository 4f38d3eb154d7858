// Gradient of the embedding: rows are added in ascending order for every table row. Threads own bands of columns, so
// no two of them touch one element.
#include "kernels.h"
#include "simd.h"

namespace agentrl::AGENTRL_ISA {

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
