#include "sampling.h"

#include <algorithm>
#include <vector>

namespace agentrl {

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    const uint64_t a = uint64_t{0xD2511F53} * c0, b = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(b);
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

double uniform(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t key) {
  const uint32_t counter[4] = {c0, c1, c2, 0}, keys[2] = {key, 0};
  uint32_t words[4];
  philox(counter, keys, words);
  return static_cast<double>(words[0]) / 4294967296.0;
}

Choice chooseLargest(const float* z, size_t vocab) {
  size_t best = 0;
  for (size_t i = 1; i < vocab; i++)
    if (z[i] > z[best]) best = i;
  return {static_cast<uint32_t>(best), 1.0f};
}

namespace {

/** The first i whose running sum of weight(i) exceeds u * total; the last of any weight where rounding runs past all. */
template <typename Weight>
size_t draw(size_t count, double total, double u, const Weight& weight) {
  const double goal = u * total;
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < count; i++) {
    const double w = weight(i);
    if (!(w > 0)) continue;
    sum += w;
    last = i;
    if (sum > goal) break;
  }
  return last;
}

/**
 * Moves the shortest head of the sorted list of `ids` whose mass reaches topP to the front and returns its length: a
 * quickselect that weighs the parts, so the list is never sorted as a whole.
 */
template <typename Before>
size_t headOfMass(std::vector<uint32_t>& ids, const float* p, float topP, const Before& before) {
  const auto at = [&](size_t i) { return ids.begin() + static_cast<std::ptrdiff_t>(i); };
  size_t low = 0, high = ids.size();  // the head's end lies in (low, high], and ids before low are in the head
  double mass = 0;                    // of ids before low
  while (high - low > 32) {
    // Median of three as pivot, parked at the end.
    uint32_t three[3] = {ids[low], ids[low + (high - low) / 2], ids[high - 1]};
    std::sort(three, three + 3, before);
    std::iter_swap(std::find(at(low), at(high), three[1]), at(high - 1));
    const uint32_t pivot = ids[high - 1];
    const auto middle = std::partition(at(low), at(high - 1), [&](uint32_t id) { return before(id, pivot); });
    std::iter_swap(middle, at(high - 1));
    const size_t place = static_cast<size_t>(middle - ids.begin());
    double upToPivot = mass;
    for (size_t i = low; i <= place; i++) upToPivot += p[ids[i]];
    if (upToPivot >= topP && place + 1 < high) {
      high = place + 1;
    } else if (upToPivot >= topP) {
      // The pivot is last: only it is known to be in order, so look among the others.
      const double others = upToPivot - p[pivot];
      if (others < topP) return high;
      high = place;
    } else {
      mass = upToPivot;
      low = place + 1;
    }
  }
  std::sort(at(low), at(high), before);
  for (; low < high; low++) {
    mass += p[ids[low]];
    if (mass >= topP) return low + 1;
  }
  return high;
}

}  // namespace

Choice chooseToken(const float* z, const float* p, size_t vocab, uint32_t topK, float topP, float minP, double u) {
  const bool cutK = topK > 0 && topK < vocab, cutP = topP < 1, cutMin = minP > 0;
  if (!cutK && !cutP && !cutMin) {
    double total = 0;
    for (size_t i = 0; i < vocab; i++) total += p[i];
    return {static_cast<uint32_t>(draw(vocab, total, u, [&](size_t i) { return p[i]; })), 1.0f};
  }

  float highest = 0;
  for (size_t i = 0; i < vocab; i++) highest = std::max(highest, p[i]);
  if (!(highest > 0)) return {0, 0.0f};  // no probabilities to choose by: logits hold NaN
  std::vector<uint32_t> ids;
  ids.reserve(vocab);
  const float floor = cutMin ? std::min(minP, 1.0f) * highest : 0.0f;
  for (size_t i = 0; i < vocab; i++)
    if (p[i] >= floor) ids.push_back(static_cast<uint32_t>(i));

  const auto before = [&](uint32_t a, uint32_t b) { return z[a] != z[b] ? z[a] > z[b] : a < b; };
  size_t count = ids.size();
  if (cutK && topK < count) {
    count = topK;
    std::nth_element(ids.begin(), ids.begin() + topK - 1, ids.end(), before);
    ids.resize(count);
  }
  if (cutP) count = headOfMass(ids, p, topP, before);

  // The kept tokens are those not after the last of them, which spares sorting them by id.
  const uint32_t last = *std::max_element(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), before);
  const float lowest = z[last];
  const auto weight = [&](size_t i) -> double { return (z[i] > lowest || (z[i] == lowest && i <= last)) ? p[i] : 0.0f; };
  double total = 0;
  for (size_t i = 0; i < vocab; i++) total += weight(i);
  return {static_cast<uint32_t>(draw(vocab, total, u, weight)), static_cast<float>(std::min(total, 1.0))};
}

}  // namespace agentrl
