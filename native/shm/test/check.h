// What the C++ tests need of a test framework.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>

#include <unistd.h>

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition);     \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

#define CHECK_EQ(got, expected)                                                                             \
  do {                                                                                                      \
    const auto got_ = (got);                                                                                \
    const auto expected_ = (expected);                                                                      \
    if (!(got_ == expected_)) {                                                                             \
      fprintf(stderr, "%s:%d: CHECK failed: %s is %lld, expected %s = %lld\n", __FILE__, __LINE__, #got,    \
              static_cast<long long>(got_), #expected, static_cast<long long>(expected_));                  \
      exit(1);                                                                                              \
    }                                                                                                       \
  } while (0)

namespace agentrl::shm {

// A segment name of this process's own, which nobody who tidies up agentrl-* removes.
inline std::string TestName(const char* what) { return "/agentrl_test-" + std::to_string(getpid()) + "-" + what; }

inline uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

struct Random {
  uint64_t state;
  uint64_t Next() { return Mix(state += 0x632be59bd9b4e019); }
  uint64_t Below(uint64_t bound) { return Next() % bound; }
};

}  // namespace agentrl::shm
