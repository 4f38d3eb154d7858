// exp and the reduction tree in plain C++; that the other instruction sets give the same bits is what the conformance
// tests of the operators compare.
#define AGENTRL_ISA plain
#include "../simd.h"

#include <cmath>
#include <limits>

#include "check.h"

using namespace agentrl;
using namespace agentrl::plain;

int main() {
  double worst = 0;
  for (float x = -87.3f; x < 88.7f; x += 0.00037f) {
    const double expected = std::exp(static_cast<double>(x));
    const double error = std::fabs(exp1(x) - expected) / expected;
    if (error > worst) worst = error;
  }
  CHECK(worst < 1.5 * std::ldexp(1.0, -23), "relative error %g", worst);
  std::printf("exp: largest relative error %.3g\n", worst);

  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(exp1(0.0f) == 1.0f);
  CHECK(exp1(-infinity) == 0.0f);
  CHECK(exp1(-88.0f) == 0.0f);
  CHECK(exp1(infinity) == infinity);
  CHECK(exp1(89.0f) == infinity);
  CHECK(exp1(88.72f) < infinity);
  CHECK(std::isnan(exp1(std::numeric_limits<float>::quiet_NaN())));

  // Every float16, against its definition: (1 + f / 1024) 2^(e - 15), or f / 1024 2^-14 where e is 0.
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    const int e = static_cast<int>(bits >> 10 & 31), f = static_cast<int>(bits & 1023);
    const double size = e == 31 ? (f == 0 ? HUGE_VAL : NAN)
                                : std::ldexp(e == 0 ? f : 1024 + f, (e == 0 ? 1 : e) - 25);
    const double expected = bits & 0x8000 ? -size : size, got = number(F16{static_cast<uint16_t>(bits)});
    CHECK(std::isnan(expected) ? std::isnan(got) : got == expected && std::signbit(got) == std::signbit(expected),
          "%#x is %g, not %g", bits, got, expected);
  }
  CHECK(number(Bf16{0x3f80}) == 1.0f && number(Bf16{0xc049}) == -3.140625f && number(Bf16{1}) == 0x1p-133f);

  // The tree adds lane i to lane i + 8, then + 4, + 2, + 1: 2^24 + 1 loses the 1, unless the 1s meet first.
  float lanes[16] = {};
  lanes[0] = 16777216.0f;
  lanes[1] = 1.0f;
  lanes[3] = 1.0f;
  CHECK(sum(load(lanes)) == 16777218.0f);
  lanes[3] = 0.0f;
  lanes[8] = 1.0f;
  CHECK(sum(load(lanes)) == 16777216.0f);
  CHECK(maxLane(load(lanes)) == 16777216.0f);
  CHECK(sum(load(lanes + 1, 2)) == 1.0f);
  return 0;
}
