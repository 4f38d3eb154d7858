// rmsNorm, rope and attention with its gradient: every instruction set and number of threads gives the same bits, the
// cache gives those of packed sequences, and nothing outside the operands is touched (run with the address sanitizer).
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "../kernels.h"
#include "check.h"

using namespace agentrl;

// A vector made with its size holds no more than that, so the sanitizer sees a step outside.
using Numbers = std::vector<float>;

static std::mt19937 random32(1);

static Numbers numbers(size_t count) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Numbers values(count);
  for (float& value : values) value = uniform(random32);
  return values;
}

static void sameBits(const Numbers& got, const Numbers& expected, const char* what) {
  CHECK(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); i++)
    CHECK(std::memcmp(&got[i], &expected[i], sizeof(float)) == 0, "%s, %d threads, %s[%zu]: %.9g, not %.9g",
          kernels().name, Pool::shared().threads(), what, i, static_cast<double>(got[i]),
          static_cast<double>(expected[i]));
}

/** run() returns results; they must be the same in every setting. */
template <typename Run>
static std::vector<Numbers> inEverySetting(const char* what, const Run& run) {
  std::vector<Numbers> first;
  for (size_t isa = 0; availableKernels(isa) != nullptr; isa++) {
    CHECK(selectKernels(availableKernels(isa)));
    for (int threads : {1, 3}) {
      Pool::shared().setThreads(threads);
      const std::vector<Numbers> results = run();
      if (first.empty()) first = results;
      for (size_t i = 0; i < results.size(); i++) sameBits(results[i], first[i], what);
    }
  }
  return first;
}

static void checkAttention(const std::vector<uint32_t>& lengths, size_t heads, size_t kvHeads, size_t headDim) {
  std::vector<uint32_t> offsets = {0};
  for (uint32_t length : lengths) offsets.push_back(offsets.back() + length);
  const size_t rows = offsets.back(), sequences = lengths.size();
  const size_t width = kvHeads * headDim, stride = heads * headDim;
  const AttentionShape shape = {heads, kvHeads, headDim, 1 / std::sqrt(static_cast<float>(headDim))};
  const Numbers q = numbers(rows * stride), k = numbers(rows * width), v = numbers(rows * width);
  const Numbers dOut = numbers(rows * stride);

  const auto results = inEverySetting("attention", [&] {
    Numbers out(rows * stride), lse(rows * heads), dQ(rows * stride), dK(rows * width), dV(rows * width);
    kernels().attention({shape, q.data(), k.data(), v.data(), out.data(), lse.data(), offsets.data(), sequences},
                        Pool::shared());
    kernels().attentionBackward({shape, q.data(), k.data(), v.data(), out.data(), lse.data(), offsets.data(), sequences,
                                 dOut.data(), dQ.data(), dK.data(), dV.data()},
                                Pool::shared());
    return std::vector<Numbers>{out, lse, dQ, dK, dV};
  });

  // Pages in descending order; what no key was written to is NaN.
  size_t pageStride = 0;
  for (uint32_t length : lengths) pageStride = std::max(pageStride, (length + kAttentionBlock - 1) / kAttentionBlock);
  const size_t pages = pageStride * sequences;
  std::vector<uint32_t> table(pages), positions, sequenceOf;
  for (size_t i = 0; i < pages; i++) table[i] = static_cast<uint32_t>(pages - 1 - i);
  Numbers kCache(pages * kAttentionBlock * width, NAN), vCache = kCache;
  for (size_t s = 0; s < sequences; s++)
    for (uint32_t i = 0; i < lengths[s]; i++) {
      positions.push_back(i);
      sequenceOf.push_back(static_cast<uint32_t>(s));
      const size_t page = table[s * pageStride + i / kAttentionBlock];
      const size_t place = (page * kAttentionBlock + i % kAttentionBlock) * width;
      std::memcpy(&kCache[place], &k[(offsets[s] + i) * width], width * sizeof(float));
      std::memcpy(&vCache[place], &v[(offsets[s] + i) * width], width * sizeof(float));
    }
  const auto cached = inEverySetting("attentionCached", [&] {
    Numbers together(rows * stride), alone(rows * stride);
    kernels().attentionCached({shape, q.data(), kCache.data(), vCache.data(), together.data(), positions.data(),
                               sequenceOf.data(), table.data(), pageStride, rows},
                              Pool::shared());
    for (size_t r = 0; r < rows; r++)
      kernels().attentionCached({shape, &q[r * stride], kCache.data(), vCache.data(), &alone[r * stride], &positions[r],
                                 &sequenceOf[r], table.data(), pageStride, 1},
                                Pool::shared());
    return std::vector<Numbers>{together, alone};
  });
  for (const Numbers& out : cached) sameBits(out, results[0], "attentionCached against attention");
}

static void checkRows(size_t rows, size_t dim) {
  const Numbers x = numbers(rows * dim), weight = numbers(dim), dOut = numbers(rows * dim), cosSin = numbers(3 * dim);
  std::vector<uint32_t> positions(rows);
  for (size_t r = 0; r < rows; r++) positions[r] = r % 3;
  inEverySetting("rmsNorm and rope", [&] {
    Numbers out(rows * dim), invRms(rows), dX(rows * dim), dWeight(dim), turned = x;
    kernels().rmsNorm({x.data(), weight.data(), out.data(), invRms.data(), rows, dim, 1e-6f}, Pool::shared());
    kernels().rmsNormBackward(
        {x.data(), weight.data(), invRms.data(), dOut.data(), dX.data(), dWeight.data(), rows, dim, true},
        Pool::shared());
    if (dim % 2 == 0)
      kernels().rope({turned.data(), cosSin.data(), positions.data(), rows, 1, dim, false}, Pool::shared());
    return std::vector<Numbers>{out, invRms, dX, dWeight, turned};
  });
}

int main() {
  checkAttention({1, 31, 32, 33}, 2, 1, 8);
  checkAttention({65, 0, 7}, 4, 2, 32);
  checkAttention({97}, 3, 3, 24);
  checkAttention({40}, 4, 1, 64);
  for (size_t rows : {1, 7, 70})
    for (size_t dim : {1, 8, 17, 64, 130}) checkRows(rows, dim);
  return 0;
}
