// Rotary position embedding in place (Su et al. 2021, half-split form): dimensions i and i + headDim/2 of a head turn
// by the angle of the row's position; the inverse turns back, which is the gradient since rotations are orthogonal.
#include "kernels.h"
#include "simd.h"

namespace agentrl::AGENTRL_ISA {

void rope(const RopeArgs& x, Pool& pool) {
  const size_t half = x.headDim / 2;
  const size_t grain = 1 + 16384 / (x.heads * x.headDim);
  pool.parallelFor(x.rows, grain, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; row++) {
      const float* cosines = x.cosSin + x.positions[row] * x.headDim;
      for (size_t i = 0; i < half; i += kLanes) {
        const Mask mask = firstLanes(half - i);
        const V c = load(cosines + i, mask);
        const V sine = load(cosines + half + i, mask), s = x.inverse ? neg(sine) : sine;
        for (size_t head = 0; head < x.heads; head++) {
          float* first = x.x + (row * x.heads + head) * x.headDim + i;
          const V a = load(first, mask), b = load(first + half, mask);
          store(first, fnma(b, s, mul(a, c)), mask);
          store(first + half, fma(a, s, mul(b, c)), mask);
        }
      }
    }
  });
}

}  // namespace agentrl::AGENTRL_ISA
