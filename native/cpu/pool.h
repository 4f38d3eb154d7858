// Threads that stay, for work split over OUTPUT elements only: which thread computes a tile never changes its bits.
// The caller is one of the threads. Workers spin for some microseconds after a job, then sleep: on two cores a second
// process is usually computing as well. With one thread, or when another thread is using the pool, work runs inline.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

namespace agentrl {

class Pool {
 public:
  /** The process's pool. */
  static Pool& shared();

  /** Threads that take part in a job, the caller included; at least 1. Workers are started on first need. */
  void setThreads(int threads);
  int threads() const { return limit_.load(std::memory_order_relaxed); }

  /** fn(begin, end) for disjoint runs of at least `grain` items (the last may be shorter) that cover [0, count). */
  template <typename Fn>
  void parallelFor(size_t count, size_t grain, const Fn& fn) {
    run(count, grain, [](const void* context, size_t begin, size_t end) { (*static_cast<const Fn*>(context))(begin, end); },
        &fn);
  }

  /** Memory for a thread's own use, kept between calls, 64-byte aligned, not cleared. */
  enum Slot { kPackA, kPackB, kTile, kRows, kShared, kShared2, kShared3, kShared4, kSlots };
  static float* scratch(Slot slot, size_t floats);

 private:
  using Task = void (*)(const void* context, size_t begin, size_t end);
  void run(size_t count, size_t grain, Task task, const void* context);
  void work(int index);
  void takeChunks();

  // The job: written by the caller while it holds `busy_` and no worker is inside an open job.
  Task task_ = nullptr;
  const void* context_ = nullptr;
  size_t count_ = 0;
  size_t chunk_ = 1;
  std::atomic<size_t> next_{0};

  std::atomic<bool> busy_{false};
  // Number of the job that workers may enter, or 0. Workers count themselves in, look again, and only then take chunks.
  std::atomic<uint32_t> open_{0};
  // Number of the last job: what sleeping workers wait on.
  std::atomic<uint32_t> issued_{0};
  std::atomic<int> inside_{0};

  std::atomic<int> limit_{1};
  std::mutex starting_;
  int workers_ = 0;
};

}  // namespace agentrl
