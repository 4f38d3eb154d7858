// Sleeping until another process changes something: an event counter in shared memory. A waiter reads the counter, looks
// at the state, and sleeps only while the counter is unchanged, so no event between look and sleep is lost. There is no
// count of waiters, which a killed waiter would leave wrong: a flag asks for a wake-up, and the waker clears it.
#pragma once
#include <atomic>
#include <cstdint>

namespace agentrl::shm {

// Nanoseconds; every sleep in this folder ends by itself after at most this long, so that a waker killed between its
// store and its wake-up delays the others and never stops them.
inline constexpr int64_t kSlice = 50'000'000;

struct Signal {
  std::atomic<uint32_t> count;
  std::atomic<uint32_t> wanted;

  uint32_t Read() const { return count.load(std::memory_order_seq_cst); }
  // Returns after Notify, after the time, or for no reason. `seen` is what Read gave before the state was looked at.
  void Wait(uint32_t seen, int64_t nanos);
  void Notify();
};

// True when *word may have changed from `seen`; false when the time was up. Shared between processes.
bool FutexWait(std::atomic<uint32_t>* word, uint32_t seen, int64_t nanos);
void FutexWake(std::atomic<uint32_t>* word, int waiters);

// A hint to the core that this is a spin loop.
inline void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace agentrl::shm
