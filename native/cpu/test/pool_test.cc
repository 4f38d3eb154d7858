// parallelFor covers every item exactly once: for any count and grain, from several callers at a time, nested, and
// while jobs follow each other faster than workers wake.
#include "../pool.h"

#include <atomic>
#include <thread>
#include <vector>

#include "check.h"

using agentrl::Pool;

static void coversOnce(Pool& pool, size_t count, size_t grain) {
  std::vector<std::atomic<int>> hits(count);
  pool.parallelFor(count, grain, [&](size_t begin, size_t end) {
    CHECK(begin < end && end <= count, "[%zu, %zu) of %zu", begin, end, count);
    for (size_t i = begin; i < end; i++) hits[i]++;
  });
  for (size_t i = 0; i < count; i++) CHECK(hits[i] == 1, "item %zu of %zu, grain %zu: %d times", i, count, grain, +hits[i]);
}

int main() {
  Pool& pool = Pool::shared();
  for (int threads : {1, 2, 5}) {
    pool.setThreads(threads);
    for (size_t count : {0u, 1u, 2u, 7u, 100u, 1001u})
      for (size_t grain : {1u, 3u, 100u}) coversOnce(pool, count, grain);
  }

  // Many short jobs; results of one are read by the next.
  std::vector<int> values(64, 0);
  for (int job = 0; job < 20000; job++)
    pool.parallelFor(values.size(), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; i++) values[i]++;
    });
  for (int value : values) CHECK(value == 20000, "%d", value);

  // A job within a job, and callers from two threads: the second runs inline.
  pool.parallelFor(8, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) coversOnce(pool, 50, 1);
  });
  const auto caller = [&] {
    for (int i = 0; i < 500; i++) coversOnce(pool, 40, 1);
  };
  std::thread other(caller);
  caller();
  other.join();

  // The number of threads may change between jobs.
  for (int i = 0; i < 200; i++) {
    pool.setThreads(1 + i % 4);
    coversOnce(pool, 100, 1);
  }

  float* a = Pool::scratch(Pool::kPackA, 10);
  CHECK(reinterpret_cast<uintptr_t>(a) % 64 == 0, "scratch is on a cache line");
  CHECK(Pool::scratch(Pool::kPackA, 5) == a, "scratch is kept");
  CHECK(Pool::scratch(Pool::kPackB, 5) != a, "slots are apart");
  return 0;
}
