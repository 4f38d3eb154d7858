// The fused head: from final hidden states to log-probabilities, entropies, samples and gradients, in chunks of
// kVocabChunk vocabulary entries, so that logits of all rows and the whole vocabulary never exist at once.
//
// With z = logit / temperature, one pass over the chunks keeps per row the maximum m, s = sum e^(z - m) and
// t = sum e^(z - m) (z - m) (online softmax, Milakov & Gimelshein 2018). Then
//   lse = m + log s,  log p = z - lse,  entropy H = log s - t / s.
// headLogProb and headSample share that pass, so they agree to the bit.
#include "gemm.h"
#include "sampling.h"
#include "simd.h"

namespace agentrl::AGENTRL_ISA {

namespace {

// Rows whose logits of one chunk are in memory together (1 MiB), and rows per chunk of thread work.
constexpr size_t kRowBlock = 512;
constexpr size_t kRowGrain = 8;
// Floats of whole-vocabulary logits that headSample may hold at once.
constexpr size_t kSampleLogits = 4 << 20;

constexpr size_t least(size_t a, size_t b) { return a < b ? a : b; }

struct Softmax {
  float max, sum, weighted;
  float target;  // z of the target token, once its chunk has passed
};

constexpr Softmax kStart = {-__builtin_inff(), 0, 0, 0};

float lse(const Softmax& s) { return s.max + static_cast<float>(__builtin_log(static_cast<double>(s.sum))); }
float entropy(const Softmax& s) {
  return static_cast<float>(__builtin_log(static_cast<double>(s.sum))) - s.weighted / s.sum;
}

/** Lanes from n on replaced by `fill`. */
AGENTRL_INLINE V keepFirst(V x, size_t n, float fill) {
  static const float kIndex[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return selectLess(load(kIndex), set1(static_cast<float>(n)), x, set1(fill));
}

/** Takes n more logits into the running softmax. */
void accumulate(Softmax& state, const float* logits, size_t n, float inverseTemperature) {
  const V scale = set1(inverseTemperature);
  V highest = set1(-__builtin_inff());
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t left = n - i;
    V z = mul(load(logits + i, left), scale);
    if (left < kLanes) z = keepFirst(z, left, -__builtin_inff());
    highest = max(z, highest);
  }
  const float top = maxLane(highest);
  if (top > state.max) {
    if (state.sum > 0) {
      const float shift = state.max - top, factor = exp1(shift);
      state.weighted = fma1(state.sum, shift, state.weighted) * factor;
      state.sum *= factor;
    }
    state.max = top;
  }
  const V shift = set1(state.max);
  V total = zero(), weighted = zero();
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t left = n - i;
    // A floor far below what exp can give: e^-1000 is 0, and 0 * -1000 is 0 where 0 * -infinity would be NaN.
    V d = max(set1(-1000.0f), sub(mul(load(logits + i, left), scale), shift));
    if (left < kLanes) d = keepFirst(d, left, -1000.0f);
    const V e = exp(d);
    total = add(total, e);
    weighted = fma(e, d, weighted);
  }
  state.sum += sum(total);
  state.weighted += sum(weighted);
}

/** Logits of `rows` rows from `row` on and `columns` vocabulary entries from `column` on. */
void logits(const HeadShape& x, size_t row, size_t rows, size_t column, size_t columns, float* out, size_t outStride,
            Pool& pool) {
  const float* hidden = x.hidden + row * x.dim;
  const Stored weight = x.weight.from(x.tied ? column * x.dim : column);
  gemm({x.tied ? Layout::nt : Layout::nn, hidden, x.dim, weight, x.tied ? x.dim : x.vocab, out, outStride, nullptr, false,
        rows, columns, x.dim},
       pool);
}

}  // namespace

void headLogProb(const HeadLogProbArgs& x, Pool& pool) {
  float* chunk = Pool::scratch(Pool::kShared, kRowBlock * kVocabChunk);
  auto* states = reinterpret_cast<Softmax*>(Pool::scratch(Pool::kShared2, kRowBlock * sizeof(Softmax) / sizeof(float)));
  for (size_t row0 = 0; row0 < x.rows; row0 += kRowBlock) {
    const size_t rows = least(kRowBlock, x.rows - row0);
    for (size_t r = 0; r < rows; r++) states[r] = kStart;
    for (size_t v0 = 0; v0 < x.vocab; v0 += kVocabChunk) {
      const size_t columns = least(kVocabChunk, x.vocab - v0);
      logits(x, row0, rows, v0, columns, chunk, kVocabChunk, pool);
      pool.parallelFor(rows, kRowGrain, [&](size_t begin, size_t end) {
        for (size_t r = begin; r < end; r++) {
          const float inverse = 1.0f / x.temperatures[row0 + r];
          accumulate(states[r], chunk + r * kVocabChunk, columns, inverse);
          const size_t target = x.targets[row0 + r];
          if (target >= v0 && target < v0 + columns) states[r].target = chunk[r * kVocabChunk + target - v0] * inverse;
        }
      });
    }
    for (size_t r = 0; r < rows; r++) {
      const float total = lse(states[r]);
      x.lse[row0 + r] = total;
      x.logProbs[row0 + r] = states[r].target - total;
      x.entropies[row0 + r] = entropy(states[r]);
    }
  }
}

// dL/dz_i = dLogProb ([i = target] - p_i) - dEntropy p_i (log p_i + H), and dL/dlogit = dL/dz / temperature.
void headBackward(const HeadBackwardArgs& x, Pool& pool) {
  float* chunk = Pool::scratch(Pool::kShared, kRowBlock * kVocabChunk);
  for (size_t row0 = 0; row0 < x.rows; row0 += kRowBlock) {
    const size_t rows = least(kRowBlock, x.rows - row0);
    for (size_t v0 = 0; v0 < x.vocab; v0 += kVocabChunk) {
      const size_t columns = least(kVocabChunk, x.vocab - v0);
      logits(x, row0, rows, v0, columns, chunk, kVocabChunk, pool);
      pool.parallelFor(rows, kRowGrain, [&](size_t begin, size_t end) {
        for (size_t r = begin; r < end; r++) {
          const size_t row = row0 + r;
          float* z = chunk + r * kVocabChunk;
          const float inverse = 1.0f / x.temperatures[row];
          const V scale = set1(inverse), total = set1(x.lse[row]), h = set1(x.entropies[row]);
          const V dLogProb = set1(x.dLogProbs[row]), dEntropy = set1(x.dEntropies[row]);
          for (size_t i = 0; i < columns; i += kLanes) {
            const size_t n = columns - i;
            const V logP = max(set1(-1000.0f), sub(mul(load(z + i, n), scale), total));
            const V inner = fma(dEntropy, add(logP, h), dLogProb);
            store(z + i, mul(neg(mul(exp(logP), inner)), scale), n);
          }
          const size_t target = x.targets[row];
          if (target >= v0 && target < v0 + columns) z[target - v0] += x.dLogProbs[row] * inverse;
        }
      });
      const float* dLogits = chunk;
      float* dHidden = x.dHidden + row0 * x.dim;
      const float* hidden = x.hidden + row0 * x.dim;
      const bool more = v0 > 0;
      if (x.tied) {
        // dHidden[rows, dim] += dLogits[rows, columns] W[columns, dim]; dW[columns, dim] += dLogitsᵀ hidden[rows, dim]
        gemm({Layout::nn, dLogits, kVocabChunk, x.weight.from(v0 * x.dim), x.dim, dHidden, x.dim, nullptr, more, rows, x.dim,
              columns},
             pool);
        if (x.dWeight != nullptr)
          gemm({Layout::tn, dLogits, kVocabChunk, {hidden, Number::f32}, x.dim, x.dWeight + v0 * x.dim, x.dim, nullptr, true, columns,
                x.dim, rows},
               pool);
      } else {
        // dHidden[rows, dim] += dLogits[rows, columns] W[dim, columns]ᵀ; dW[dim, columns] += hiddenᵀ dLogits
        gemm({Layout::nt, dLogits, kVocabChunk, x.weight.from(v0), x.vocab, dHidden, x.dim, nullptr, more, rows, x.dim, columns},
             pool);
        if (x.dWeight != nullptr)
          gemm({Layout::tn, hidden, x.dim, {dLogits, Number::f32}, kVocabChunk, x.dWeight + v0, x.vocab, nullptr, true, x.dim, columns,
                rows},
               pool);
      }
    }
  }
}

void headSample(const HeadSampleArgs& x, Pool& pool) {
  const size_t fits = kSampleLogits / (x.vocab + 1);
  const size_t blockRows = least(x.rows, fits < 1 ? 1 : fits);
  float* all = Pool::scratch(Pool::kShared, blockRows * x.vocab);
  for (size_t row0 = 0; row0 < x.rows; row0 += blockRows) {
    const size_t rows = least(blockRows, x.rows - row0);
    logits(x, row0, rows, 0, x.vocab, all, x.vocab, pool);
    pool.parallelFor(rows, 1, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; r++) {
        const size_t row = row0 + r;
        float* z = all + r * x.vocab;
        const bool greedy = x.temperatures[row] == 0;
        const float inverse = greedy ? 1.0f : 1.0f / x.temperatures[row];
        Softmax state = kStart;
        for (size_t v0 = 0; v0 < x.vocab; v0 += kVocabChunk)
          accumulate(state, z + v0, least(kVocabChunk, x.vocab - v0), inverse);
        const float total = lse(state);

        float* p = Pool::scratch(Pool::kRows, x.vocab);
        const V scale = set1(inverse), shift = set1(total);
        for (size_t i = 0; i < x.vocab; i += kLanes) {
          const size_t n = x.vocab - i;
          const V scaled = mul(load(z + i, n), scale);
          store(z + i, scaled, n);
          store(p + i, exp(sub(scaled, shift)), n);
        }
        const uint32_t* seed = x.seeds + 4 * row;
        const Choice choice = greedy ? chooseLargest(z, x.vocab)
                                     : chooseToken(z, p, x.vocab, x.topK[row], x.topP[row], x.minP[row],
                                                   uniform(seed[0], seed[1], seed[2], seed[3]));
        x.tokens[row] = choice.token;
        x.logProbs[row] = z[choice.token] - total;
        x.keptMass[row] = choice.keptMass;
      }
    });
  }
}

}  // namespace agentrl::AGENTRL_ISA
