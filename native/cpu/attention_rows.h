// The one routine by which a query row attends to the keys before it, shared by attention and attentionCached so that
// both give the same bits: online softmax (Milakov & Gimelshein 2018; FlashAttention, Dao et al. 2022) over blocks of
// kAttentionBlock keys from position 0.
//
// For the query q at position p, block by block (keys j = 32 b ... min(32 b + 31, p)):
//   s_j = scale (q . k_j)                        one chain of fused multiply-adds over the head's dimensions
//   m' = max(m, max_j s_j),  c = e^(m - m')
//   p_j = e^(s_j - m'),  l = c l + sum_j p_j     the sum in one fixed tree
//   o = c o, then + p_j v_j for j ascending      one chain
// and at the end out = o / l, lse = m + log l. None of it depends on which other rows are computed beside this one.
#pragma once

#include "gemm_pack.h"
#include "kernels.h"
#include "small_matmul.h"

namespace agentrl::AGENTRL_ISA {

/** Query rows of one sequence at consecutive positions: what one task computes for one kv head. */
struct RowRun {
  size_t row, rows;
  /** Of the first row, in its sequence. */
  size_t position;
  /** The sequence's line of the page table. */
  size_t line;
};

// Enough rows that transposing a block of keys costs little beside using it; few enough that a sequence of some
// hundred tokens keeps several threads busy.
constexpr size_t kRunRows = 64;

struct AttendArgs : AttentionShape {
  const float *q, *k, *v;
  float *out, *lse;           // lse may be null
  const uint32_t* pageTable;  // null: a sequence's keys lie in consecutive rows, its first where its first query is
  size_t pageTableStride;
};

/** Queries that read the same keys: the rows of one head, or the heads of one row. */
struct Queries {
  const float* q;
  float *out, *lse;
  size_t stride, lseStride;
  size_t count;
  /** Of the first query; the i-th is at position + i * step, step being 0 or 1. */
  size_t position, step;
  /** Running maximum and sum of each. */
  float *max, *sum;
};

AGENTRL_INLINE size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

constexpr float kMinusInfinity = -__builtin_inff();

/**
 * Turns a row's first `keys` scores into p = e^(scale s - m') in place and the rest into 0; brings max and sum up to date
 * and returns c, the factor for what was summed before.
 */
AGENTRL_INLINE float softmaxBlock(float* s, size_t keys, V scale, float& max, float& total) {
  V low = mul(load(s), scale), high = mul(load(s + kLanes), scale);
  if (keys < kAttentionBlock) {
    store(s, low);
    store(s + kLanes, high);
    for (size_t j = keys; j < kAttentionBlock; j++) s[j] = kMinusInfinity;
    low = load(s);
    high = load(s + kLanes);
  }
  const float top = maxLane(agentrl::AGENTRL_ISA::max(low, high));
  const float before = max;
  if (top > before) max = top;
  const V shift = set1(max);
  low = exp(sub(low, shift));
  high = exp(sub(high, shift));
  store(s, low);
  store(s + kLanes, high);
  const float factor = before == max ? 1.0f : exp1(before - max);
  total = fma1(total, factor, sum(add(low, high)));
  return factor;
}

AGENTRL_INLINE void scaleRow(float* row, size_t length, V factor) {
  for (size_t d = 0; d < length; d += kLanes) {
    const Mask mask = firstLanes(length - d);
    store(row + d, mul(load(row + d, mask), factor), mask);
  }
}

/** Takes block `b` of the keys into the queries that reach it. keysT is [headDim, kAttentionBlock]. */
inline void attendBlock(const Queries& x, size_t b, const float* keysT, const float* values, size_t width,
                        const AttendArgs& args, float* scores) {
  const size_t start = b * kAttentionBlock, headDim = args.headDim;
  const size_t first = x.position < start ? start - x.position : 0;  // by the caller, 0 when step is 0
  const auto keysOf = [&](size_t i) { return lesser(kAttentionBlock, x.position + i * x.step + 1 - start); };
  Tile tile{};
  tile.a = x.q + first * x.stride;
  tile.aStride = x.stride;
  tile.b = keysT;
  tile.bStride = kAttentionBlock;
  tile.c = scores + first * kAttentionBlock;
  tile.cStride = kAttentionBlock;
  tile.k = headDim;
  tile.columns = kAttentionBlock;
  smallMatmul<AOrder::rows>(tile, x.count - first);

  const V scale = set1(args.scale);
  for (size_t i = first; i < x.count; i++) {
    const float factor = softmaxBlock(scores + i * kAttentionBlock, keysOf(i), scale, x.max[i], x.sum[i]);
    if (b > 0 && factor != 1.0f) scaleRow(x.out + i * x.stride, headDim, set1(factor));
  }

  tile.aStride = kAttentionBlock;
  tile.bStride = width;
  tile.cStride = x.stride;
  tile.columns = headDim;
  for (size_t i = first; i < x.count; i += kTileRows) {
    // Rows of a tile share the keys that the first of them sees; in the last block the later rows see some more.
    const size_t rows = lesser(kTileRows, x.count - i), shared = keysOf(i);
    tile.a = scores + i * kAttentionBlock;
    tile.b = values;
    tile.c = x.out + i * x.stride;
    tile.k = shared;
    tile.accumulate = b > 0;
    smallMatmul<AOrder::rows>(tile, rows);
    for (size_t r = 1; r < rows; r++) {
      const size_t keys = keysOf(i + r);
      if (keys == shared) continue;
      Tile rest = tile;
      rest.a += r * kAttentionBlock + shared;
      rest.b += shared * width;
      rest.c += r * x.stride;
      rest.k = keys - shared;
      rest.accumulate = true;
      smallMatmul<AOrder::rows>(rest, 1);
    }
  }
}

/** The heads of one kv head, for all rows of a run. */
inline void attendRun(const AttendArgs& x, const RowRun& run, size_t kvHead) {
  const size_t group = x.heads / x.kvHeads, width = x.kvHeads * x.headDim, stride = x.heads * x.headDim;
  const size_t count = group * run.rows;
  float* scores = Pool::scratch(Pool::kTile, (group > run.rows ? group : run.rows) * kAttentionBlock);
  float* keysT = Pool::scratch(Pool::kPackB, x.headDim * kAttentionBlock);
  float* maxima = Pool::scratch(Pool::kRows, 2 * count);
  float* sums = maxima + count;
  for (size_t i = 0; i < count; i++) {
    maxima[i] = kMinusInfinity;
    sums[i] = 0;
  }
  // A run of one row, as in decoding, is one set of queries: its heads. Else each head of the group is a set.
  const bool single = run.rows == 1;
  const size_t sets = single ? 1 : group;
  const auto set = [&](size_t g) {
    const size_t head = kvHead * group + g, at = run.row * stride + head * x.headDim;
    Queries queries{};
    queries.q = x.q + at;
    queries.out = x.out + at;
    queries.stride = single ? x.headDim : stride;
    queries.lse = x.lse == nullptr ? nullptr : x.lse + run.row * x.heads + head;
    queries.lseStride = single ? 1 : x.heads;
    queries.count = single ? group : run.rows;
    queries.position = run.position;
    queries.step = single ? 0 : 1;
    queries.max = maxima + g * run.rows;
    queries.sum = sums + g * run.rows;
    return queries;
  };

  const size_t keys = run.position + run.rows;
  for (size_t start = 0, b = 0; start < keys; start += kAttentionBlock, b++) {
    const size_t row = x.pageTable == nullptr ? run.row - run.position + start
                                              : x.pageTable[run.line * x.pageTableStride + b] * kAttentionBlock;
    const size_t offset = row * width + kvHead * x.headDim;
    packTransposed(x.k + offset, width, lesser(kAttentionBlock, keys - start), x.headDim, keysT, kAttentionBlock);
    for (size_t g = 0; g < sets; g++) attendBlock(set(g), b, keysT, x.v + offset, width, x, scores);
  }
  for (size_t g = 0; g < sets; g++) {
    const Queries queries = set(g);
    for (size_t i = 0; i < queries.count; i++) {
      scaleRow(queries.out + i * queries.stride, x.headDim, set1(1.0f / queries.sum[i]));
      if (queries.lse != nullptr)
        queries.lse[i * queries.lseStride] =
            queries.max[i] + static_cast<float>(__builtin_log(static_cast<double>(queries.sum[i])));
    }
  }
}

/** All runs and kv heads, shared out among the threads. */
inline void attendRuns(const AttendArgs& x, const RowRun* runs, size_t count, Pool& pool) {
  // Multiply-adds of a task on average, and how many are worth a thread of their own (some 10 microseconds).
  constexpr size_t kThreadWork = 200 * 1000;
  size_t work = 1;
  for (size_t i = 0; i < count; i++)
    work += runs[i].rows * (runs[i].position + kAttentionBlock) * 2 * x.headDim * (x.heads / x.kvHeads);
  const size_t grain = 1 + kThreadWork / (work / (count + 1) + 1);
  pool.parallelFor(count * x.kvHeads, grain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) attendRun(x, runs[i / x.kvHeads], i % x.kvHeads);
  });
}

}  // namespace agentrl::AGENTRL_ISA
