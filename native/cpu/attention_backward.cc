// Gradient of causal attention (FlashAttention-2, Dao 2023, section 3.1): the probabilities are computed again from the
// log-sum-exp that the forward pass kept. With s = scale q . k, p = e^(s - lse) and D_i = dOut_i . out_i,
//   dS_ij = scale p_ij (dOut_i . v_j - D_i),  dQ_i = sum_j dS_ij k_j,  dK_j = sum_i dS_ij q_i,  dV_j = sum_i p_ij dOut_i.
//
// Order of the sums, each one chain: dQ over keys ascending; dK and dV over the heads of the group, and within each
// over rows, ascending. Work is cut into squares of 32 queries x 32 keys at multiples of 32 from the sequence's start.
// With tasks enough one walk over the squares does everything; with few, one walk makes dQ, cut by rows, and another
// dK and dV, cut by keys. The chains are the same either way.
#include "gemm_pack.h"
#include "kernels.h"
#include "small_matmul.h"

namespace agentrl::AGENTRL_ISA {

namespace {

constexpr size_t kBlock = kAttentionBlock;

AGENTRL_INLINE size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

/** What a task computes: of which sequence and kv head, blocks of keys [block0, block1) against rows [row0, row1). */
struct Walk {
  size_t start, length, kvHead;
  size_t block0, block1, row0, row1;
  bool query, key;
};

/** D = sum over the head of dOut * out, in the lanes' order and one tree. */
float dot(const float* a, const float* b, size_t length) {
  V total = zero();
  for (size_t d = 0; d < length; d += kLanes) {
    const Mask mask = firstLanes(length - d);
    total = fma(load(a + d, mask), load(b + d, mask), total);
  }
  return sum(total);
}

/** In place, for a row that sees `keys` of the block: scores become p, dOut . v becomes dS; 0 where it does not see. */
AGENTRL_INLINE void backwardRow(float* p, float* ds, size_t keys, V scale, float lse, float delta) {
  for (size_t half = 0; half < kBlock; half += kLanes) {
    const size_t seen = keys > half ? keys - half : 0;
    const V score = mul(load(p + half), scale);
    const V probability = exp(sub(score, set1(lse)));
    const V dScore = mul(mul(probability, sub(load(ds + half), set1(delta))), scale);
    store(p + half, probability);
    store(ds + half, dScore);
    for (size_t j = seen; j < kLanes; j++) p[half + j] = ds[half + j] = 0;
  }
}

void walk(const AttentionBackwardArgs& x, const float* deltas, const Walk& w) {
  const size_t headDim = x.headDim, group = x.heads / x.kvHeads;
  const size_t width = x.kvHeads * headDim, stride = x.heads * headDim;
  float* p = Pool::scratch(Pool::kTile, 2 * kBlock * kBlock);
  float* ds = p + kBlock * kBlock;
  float* keysT = Pool::scratch(Pool::kPackB, 2 * headDim * kBlock);
  float* valuesT = keysT + headDim * kBlock;

  for (size_t b = w.block0; b < w.block1; b++) {
    const size_t keys = lesser(kBlock, w.length - b * kBlock);
    const size_t keyAt = (w.start + b * kBlock) * width + w.kvHead * headDim;
    packTransposed(x.k + keyAt, width, keys, headDim, keysT, kBlock);
    packTransposed(x.v + keyAt, width, keys, headDim, valuesT, kBlock);
    const size_t from = w.row0 > b * kBlock ? w.row0 : b * kBlock;
    for (size_t g = 0; g < group; g++) {
      for (size_t r = from; r < w.row1; r += kBlock) {
        const size_t rows = lesser(kBlock, w.row1 - r), head = w.kvHead * group + g;
        const size_t queryAt = (w.start + r) * stride + head * headDim;
        Tile tile{};
        // [rows, 32] = q kᵀ and dOut vᵀ
        tile.a = x.q + queryAt;
        tile.aStride = stride;
        tile.b = keysT;
        tile.bStride = kBlock;
        tile.c = p;
        tile.cStride = kBlock;
        tile.k = headDim;
        tile.columns = kBlock;
        smallMatmul<AOrder::rows>(tile, rows);
        tile.a = x.dOut + queryAt;
        tile.b = valuesT;
        tile.c = ds;
        smallMatmul<AOrder::rows>(tile, rows);

        for (size_t i = 0; i < rows; i++) {
          const size_t seen = r == b * kBlock ? i + 1 : keys;
          const size_t at = (w.start + r + i) * x.heads + head;
          backwardRow(p + i * kBlock, ds + i * kBlock, seen, set1(x.scale), x.lse[at], deltas[at]);
        }

        tile.aStride = kBlock;
        tile.columns = headDim;
        if (w.query) {  // dQ[rows, headDim] += dS[rows, keys] k[keys, headDim]
          tile.a = ds;
          tile.b = x.k + keyAt;
          tile.bStride = width;
          tile.c = x.dQ + queryAt;
          tile.cStride = stride;
          tile.k = keys;
          tile.accumulate = b > 0;
          smallMatmul<AOrder::rows>(tile, rows);
        }
        if (w.key) {  // dV[keys, headDim] += p[rows, keys]ᵀ dOut[rows, headDim], dK likewise from dS and q
          tile.bStride = stride;
          tile.cStride = width;
          tile.k = rows;
          tile.accumulate = g > 0 || r > b * kBlock;
          tile.a = p;
          tile.b = x.dOut + queryAt;
          tile.c = x.dV + keyAt;
          smallMatmul<AOrder::columns>(tile, keys);
          tile.a = ds;
          tile.b = x.q + queryAt;
          tile.c = x.dK + keyAt;
          smallMatmul<AOrder::columns>(tile, keys);
        }
      }
    }
  }
}

}  // namespace

void attentionBackward(const AttentionBackwardArgs& x, Pool& pool) {
  const size_t row0 = x.offsets[0], row1 = x.offsets[x.sequences];
  float* deltas = Pool::scratch(Pool::kShared, row1 * x.heads);
  pool.parallelFor((row1 - row0) * x.heads, 1024, [&](size_t begin, size_t end) {
    for (size_t i = row0 * x.heads + begin; i < row0 * x.heads + end; i++)
      deltas[i] = dot(x.dOut + i * x.headDim, x.out + i * x.headDim, x.headDim);
  });

  const auto lengthOf = [&](size_t s) { return size_t{x.offsets[s + 1]} - x.offsets[s]; };
  const size_t tasks = x.sequences * x.kvHeads, threads = static_cast<size_t>(pool.threads());
  // Two walks do 7/5 of the work of one, which pays where the tasks of one would leave threads idle for longer.
  if (5 * ((tasks + threads - 1) / threads) * threads <= 7 * tasks) {
    pool.parallelFor(tasks, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; i++) {
        const size_t s = i / x.kvHeads, length = lengthOf(s);
        const size_t blocks = (length + kBlock - 1) / kBlock;
        walk(x, deltas, {x.offsets[s], length, i % x.kvHeads, 0, blocks, 0, length, true, true});
      }
    });
    return;
  }
  for (size_t s = 0; s < x.sequences; s++) {
    const size_t start = x.offsets[s], length = lengthOf(s), blocks = (length + kBlock - 1) / kBlock;
    pool.parallelFor(2 * blocks * x.kvHeads, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; i++) {
        const size_t kvHead = i % x.kvHeads, b = i / x.kvHeads / 2, from = b * kBlock;
        if (i / x.kvHeads % 2 == 0)
          walk(x, deltas, {start, length, kvHead, 0, b + 1, from, lesser(from + kBlock, length), true, false});
        else
          walk(x, deltas, {start, length, kvHead, b, b + 1, 0, length, false, true});
      }
    });
  }
}

}  // namespace agentrl::AGENTRL_ISA
