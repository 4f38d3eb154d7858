#include "pool.h"

#include <chrono>
#include <cstdlib>
#include <new>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace agentrl {

namespace {

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/** Spins until `done()` or for about 20 microseconds; true when done. */
template <typename Done>
bool spin(const Done& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
  do {
    for (int i = 0; i < 16; i++) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace

Pool& Pool::shared() {
  // Never destroyed: workers sleep in it until the process ends.
  static Pool* pool = new Pool();
  return *pool;
}

void Pool::setThreads(int threads) {
  const int wanted = threads < 1 ? 1 : threads > 256 ? 256 : threads;
  std::lock_guard<std::mutex> lock(starting_);
  while (workers_ < wanted - 1) std::thread(&Pool::work, this, workers_++).detach();
  limit_.store(wanted, std::memory_order_relaxed);
}

void Pool::run(size_t count, size_t grain, Task task, const void* context) {
  if (count == 0) return;
  const size_t limit = static_cast<size_t>(threads());
  if (limit <= 1 || count <= grain || busy_.exchange(true, std::memory_order_acquire)) {
    task(context, 0, count);
    return;
  }
  // A few chunks per thread, so that a core which another process takes away holds up a chunk and not a share.
  const size_t even = (count + limit * 4 - 1) / (limit * 4);
  task_ = task;
  context_ = context;
  count_ = count;
  chunk_ = grain > even ? grain : even;
  next_.store(0, std::memory_order_relaxed);
  const uint32_t number = issued_.load(std::memory_order_relaxed) + 1 == 0 ? 1 : issued_.load() + 1;
  open_.store(number);
  issued_.store(number);
  issued_.notify_all();

  takeChunks();

  // Close, then wait for those who came in before that. A worker that wakes later finds the job closed.
  open_.store(0);
  for (;;) {
    if (spin([&] { return inside_.load() == 0; })) break;
    const int inside = inside_.load();
    if (inside != 0) inside_.wait(inside);
  }
  busy_.store(false, std::memory_order_release);
}

void Pool::takeChunks() {
  for (;;) {
    const size_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
    if (begin >= count_) return;
    task_(context_, begin, begin + chunk_ < count_ ? begin + chunk_ : count_);
  }
}

void Pool::work(int index) {
  uint32_t seen = 0;
  for (;;) {
    const uint32_t issued = issued_.load();
    uint32_t open = 0;
    const bool found = spin([&] {
      open = open_.load(std::memory_order_relaxed);
      return open != 0 && open != seen;
    });
    if (!found) {
      issued_.wait(issued);
      continue;
    }
    seen = open;
    if (index >= threads() - 1) continue;
    inside_.fetch_add(1);
    if (open_.load() == open) takeChunks();
    if (inside_.fetch_sub(1) == 1) inside_.notify_all();
  }
}

float* Pool::scratch(Slot slot, size_t floats) {
  struct Memory {
    void* data = nullptr;
    size_t size = 0;
    ~Memory() { std::free(data); }
  };
  static thread_local Memory slots[kSlots];
  Memory& memory = slots[slot];
  const size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
  if (memory.size < bytes) {
    std::free(memory.data);
    memory.size = 0;
    memory.data = std::aligned_alloc(64, bytes);
    if (memory.data == nullptr) throw std::bad_alloc();
    memory.size = bytes;
  }
  return static_cast<float*>(memory.data);
}

}  // namespace agentrl
