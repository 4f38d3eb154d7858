// The smallest thing that serves: CHECK says what failed and where, and the program ends with 1.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition, ...)                                              \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n ", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, " " __VA_ARGS__);                               \
      std::fprintf(stderr, "\n");                                          \
      std::exit(1);                                                        \
    }                                                                      \
  } while (0)
