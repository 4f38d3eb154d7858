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
  /** Running maximum and sum of each, and the factor for what was summed before the block at hand. */
  float *max, *sum, *factor;
  /** [count, kAttentionBlock] */
  float* scores;

  /** The first query that reaches a block which starts at this position. */
  size_t first(size_t start) const { return position < start ? start - position : 0; }
  /** How many keys of that block it sees. */
  size_t keys(size_t i, size_t start) const {
    const size_t seen = position + i * step + 1 - start;
    return seen < kAttentionBlock ? seen : kAttentionBlock;
  }
};

AGENTRL_INLINE size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

constexpr float kMinusInfinity = -__builtin_inff();

/** scores = q keysT for the queries that reach the block, keysT being [headDim, kAttentionBlock]. */
inline void scoreBlock(const Queries& x, size_t start, const float* keysT, size_t headDim) {
  const size_t first = x.first(start);
  Tile tile{};
  tile.a = x.q + first * x.stride;
  tile.aStride = x.stride;
  tile.b = keysT;
  tile.bStride = kAttentionBlock;
  tile.c = x.scores + first * kAttentionBlock;
  tile.cStride = kAttentionBlock;
  tile.k = headDim;
  tile.columns = kAttentionBlock;
  smallMatmul<AOrder::rows>(tile, x.count - first);
}

AGENTRL_INLINE void scaleRow(float* row, size_t length, V factor) {
  for (size_t d = 0; d < length; d += kLanes) {
    const Mask mask = firstLanes(length - d);
    store(row + d, mul(load(row + d, mask), factor), mask);
  }
}

/** Scores become p; maximum, sum and what has been summed of the values are brought to the new maximum. */
inline void softmaxBlock(const Queries& x, size_t start, size_t headDim, float scoreScale) {
  const V scale = set1(scoreScale);
  const size_t first = x.first(start);
  // In three passes, each of them many independent chains: row by row, one chain would wait for the one before it.
  for (size_t i = first; i < x.count; i++) {
    float* s = x.scores + i * kAttentionBlock;
    V low = mul(load(s), scale), high = mul(load(s + kLanes), scale);
    store(s, low);
    store(s + kLanes, high);
    const size_t keys = x.keys(i, start);
    if (keys < kAttentionBlock) {
      for (size_t j = keys; j < kAttentionBlock; j++) s[j] = kMinusInfinity;
      low = load(s);
      high = load(s + kLanes);
    }
    x.factor[i] = maxLane(max(low, high));
  }
  for (size_t i = first; i < x.count; i += kLanes) {
    const Mask mask = firstLanes(x.count - i);
    const V before = load(x.max + i, mask);
    const V after = max(load(x.factor + i, mask), before);
    store(x.factor + i, exp(sub(before, after)), mask);
    store(x.max + i, after, mask);
  }
  for (size_t i = first; i < x.count; i++) {
    float* s = x.scores + i * kAttentionBlock;
    const V shift = set1(x.max[i]);
    const V low = exp(sub(load(s), shift)), high = exp(sub(load(s + kLanes), shift));
    store(s, low);
    store(s + kLanes, high);
    x.sum[i] = fma1(x.sum[i], x.factor[i], sum(add(low, high)));
    if (start > 0 && x.factor[i] != 1.0f) scaleRow(x.out + i * x.stride, headDim, set1(x.factor[i]));
  }
}

/** out += p values, keys ascending. */
inline void valueBlock(const Queries& x, size_t start, const float* values, size_t width, size_t headDim) {
  Tile tile{};
  tile.aStride = kAttentionBlock;
  tile.bStride = width;
  tile.cStride = x.stride;
  tile.columns = headDim;
  for (size_t i = x.first(start); i < x.count; i += kTileRows) {
    // Rows of a tile share the keys that the first of them sees; in the last block the later rows see some more.
    const size_t rows = lesser(kTileRows, x.count - i), shared = x.keys(i, start);
    tile.a = x.scores + i * kAttentionBlock;
    tile.b = values;
    tile.c = x.out + i * x.stride;
    tile.k = shared;
    tile.accumulate = start > 0;
    smallMatmul<AOrder::rows>(tile, rows);
    for (size_t r = 1; r < rows; r++) {
      const size_t keys = x.keys(i + r, start);
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

/** The heads of kv heads [kvHead0, kvHead1), for all rows of a run. */
inline void attendRun(const AttendArgs& x, const RowRun& run, size_t kvHead0, size_t kvHead1) {
  const size_t group = x.heads / x.kvHeads, width = x.kvHeads * x.headDim, stride = x.heads * x.headDim;
  const size_t kvHeads = kvHead1 - kvHead0, total = kvHeads * group * run.rows;
  // In a run of one row, as in decoding, the heads of a kv head are a set of queries; else the rows of a head are.
  const bool single = run.rows == 1;
  const size_t count = single ? group : run.rows;
  float* keysT = Pool::scratch(Pool::kPackB, kvHeads * x.headDim * kAttentionBlock);
  float* scores = Pool::scratch(Pool::kTile, (single ? total : count) * kAttentionBlock);
  float* states = Pool::scratch(Pool::kRows, 3 * total);
  for (size_t i = 0; i < total; i++) {
    states[i] = kMinusInfinity;
    states[total + i] = 0;
  }
  const auto set = [&](size_t kvHead, size_t g) {
    const size_t head = kvHead * group + g, at = run.row * stride + head * x.headDim;
    const size_t index = (kvHead - kvHead0) * group * run.rows + g * run.rows;
    Queries queries;
    queries.q = x.q + at;
    queries.out = x.out + at;
    queries.stride = single ? x.headDim : stride;
    queries.lse = x.lse == nullptr ? nullptr : x.lse + run.row * x.heads + head;
    queries.lseStride = single ? 1 : x.heads;
    queries.count = count;
    queries.position = run.position;
    queries.step = single ? 0 : 1;
    queries.max = states + index;
    queries.sum = states + total + index;
    queries.factor = states + 2 * total + index;
    queries.scores = scores + (single ? index * kAttentionBlock : 0);
    return queries;
  };

  const size_t end = run.position + run.rows;
  for (size_t start = 0, b = 0; start < end; start += kAttentionBlock, b++) {
    const size_t row = x.pageTable == nullptr ? run.row - run.position + start
                                              : x.pageTable[run.line * x.pageTableStride + b] * kAttentionBlock;
    const size_t keys = lesser(kAttentionBlock, end - start), offset = row * width;
    const auto keysOf = [&](size_t kvHead) { return keysT + (kvHead - kvHead0) * x.headDim * kAttentionBlock; };
    for (size_t h = kvHead0; h < kvHead1; h++)
      packTransposed(x.k + offset + h * x.headDim, width, keys, x.headDim, keysOf(h), kAttentionBlock);
    if (single) {
      // Few chains each: side by side the products of several kv heads fill the multipliers better.
      for (size_t h = kvHead0; h < kvHead1; h++) scoreBlock(set(h, 0), start, keysOf(h), x.headDim);
      for (size_t h = kvHead0; h < kvHead1; h++) softmaxBlock(set(h, 0), start, x.headDim, x.scale);
      for (size_t h = kvHead0; h < kvHead1; h++)
        valueBlock(set(h, 0), start, x.v + offset + h * x.headDim, width, x.headDim);
    } else {
      for (size_t h = kvHead0; h < kvHead1; h++)
        for (size_t g = 0; g < group; g++) {
          const Queries queries = set(h, g);
          scoreBlock(queries, start, keysOf(h), x.headDim);
          softmaxBlock(queries, start, x.headDim, x.scale);
          valueBlock(queries, start, x.v + offset + h * x.headDim, width, x.headDim);
        }
    }
  }
  for (size_t h = kvHead0; h < kvHead1; h++) {
    for (size_t g = 0; g < (single ? 1 : group); g++) {
      const Queries queries = set(h, g);
      for (size_t i = 0; i < count; i++) {
        scaleRow(queries.out + i * queries.stride, x.headDim, set1(1.0f / queries.sum[i]));
        if (queries.lse != nullptr)
          queries.lse[i * queries.lseStride] =
              queries.max[i] + static_cast<float>(__builtin_log(static_cast<double>(queries.sum[i])));
      }
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
  const bool whole = count >= 4 * static_cast<size_t>(pool.threads());
  pool.parallelFor(count * x.kvHeads, grain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
      const size_t kvHead = i % x.kvHeads;
      const RowRun& run = runs[i / x.kvHeads];
      // With rows enough, the task of kv head 0 computes all heads of a single row.
      if (!whole || run.rows > 1)
        attendRun(x, run, kvHead, kvHead + 1);
      else if (kvHead == 0)
        attendRun(x, run, 0, x.kvHeads);
    }
  });
}

}  // namespace agentrl::AGENTRL_ISA
