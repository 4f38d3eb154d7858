// Choice of a token from one row of probabilities. Compiled once, not per instruction set: scalar work on few numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace agentrl {

struct Choice {
  uint32_t token;
  /** Probability of the set that was chosen from; 1 when nothing is cut. */
  float keptMass;
};

/** Philox 4x32-10 (Salmon et al. 2011): four random words, a pure function of counter and key. */
void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/** In [0, 1): first word of philox({c0, c1, c2, 0}, {key, 0}) / 2^32. */
double uniform(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t key);

/** The largest z, the lowest id on a tie. keptMass is 1: greedy decoding is not a cut of the distribution. */
Choice chooseLargest(const float* z, size_t vocab);

/**
 * Draws by inverse transform in ascending order of ids. p[i] = softmax(z)[i]. Each of top-k, top-p and min-p keeps a
 * head of the list of tokens sorted by falling z (lower id first on a tie), judged on the whole distribution; the
 * shortest of the three heads is chosen from.
 */
Choice chooseToken(const float* z, const float* p, size_t vocab, uint32_t topK, float topP, float minP, double u);

}  // namespace agentrl
