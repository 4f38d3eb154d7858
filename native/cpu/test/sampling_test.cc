// Philox against the known answers of Random123 1.14 (tests/kat_vectors), and draws at the edges of [0, 1).
#include "../sampling.h"

#include <vector>

#include "check.h"

using namespace agentrl;

static void philoxGives(std::vector<uint32_t> counter, std::vector<uint32_t> key, std::vector<uint32_t> expected) {
  uint32_t words[4];
  philox(counter.data(), key.data(), words);
  for (size_t i = 0; i < 4; i++) CHECK(words[i] == expected[i], "word %zu: %08x, not %08x", i, words[i], expected[i]);
}

int main() {
  const uint32_t f = 0xffffffff;
  philoxGives({0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  philoxGives({f, f, f, f}, {f, f}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  philoxGives({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
              {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

  const std::vector<float> p = {0.0f, 0.25f, 0.5f, 0.25f, 0.0f}, z = {-99, -1.386f, -0.693f, -1.386f, -99};
  const auto token = [&](uint32_t topK, float topP, float minP, double u) {
    return chooseToken(z.data(), p.data(), p.size(), topK, topP, minP, u).token;
  };
  const double last = 1 - 1.0 / 4294967296.0;
  CHECK(token(0, 1, 0, 0.0) == 1, "a token of probability 0 is never drawn");
  CHECK(token(0, 1, 0, last) == 3);
  CHECK(token(0, 1, 0, 0.25) == 2, "u on an edge belongs to the next token");
  CHECK(token(2, 1, 0, last) == 2, "the two likeliest are 2 and, lower id of a tie, 1");
  CHECK(token(0, 0.5f, 0, 0.0) == 2 && token(0, 0.5f, 0, last) == 2);
  CHECK(token(0, 1, 0.6f, last) == 2);
  CHECK(token(0, 1, 5.0f, last) == 2, "min-p above 1 keeps the likeliest");
  CHECK(token(0, 0.0f, 0, last) == 2, "top-p 0 keeps the likeliest");

  const std::vector<float> nan(4, __builtin_nanf(""));
  CHECK(chooseToken(nan.data(), nan.data(), 4, 2, 0.5f, 0, 0.5).token < 4, "NaN gives some token, no crash");
  CHECK(chooseToken(nan.data(), nan.data(), 4, 0, 1, 0, 0.5).token < 4);
  return 0;
}
