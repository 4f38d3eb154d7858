#include "wakeup.h"

#include <algorithm>
#include <climits>
#include <ctime>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace agentrl::shm {

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

bool FutexWait(std::atomic<uint32_t>* word, uint32_t seen, int64_t nanos) {
  if (nanos <= 0) return word->load() != seen;
#if defined(__linux__)
  const timespec time{static_cast<time_t>(nanos / 1'000'000'000), static_cast<long>(nanos % 1'000'000'000)};
  // Not FUTEX_PRIVATE: the word is shared between processes.
  const long rc = syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, seen, &time, nullptr, 0);
  return rc == 0 || word->load() != seen;
#else
  // No portable wait on an address between processes: look again every half millisecond.
  for (int64_t left = nanos; left > 0; left -= 500'000) {
    if (word->load() != seen) return true;
    const timespec nap{0, static_cast<long>(std::min<int64_t>(left, 500'000))};
    nanosleep(&nap, nullptr);
  }
  return word->load() != seen;
#endif
}

void FutexWake(std::atomic<uint32_t>* word, int waiters) {
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, waiters, nullptr, nullptr, 0);
#else
  (void)word;
  (void)waiters;
#endif
}

void Signal::Wait(uint32_t seen, int64_t nanos) {
  wanted.store(1, std::memory_order_seq_cst);
  FutexWait(&count, seen, std::min(nanos, kSlice));
}

void Signal::Notify() {
  count.fetch_add(1, std::memory_order_seq_cst);
  // Count before flag: a waiter that sets the flag after this load finds the count changed and does not sleep.
  if (wanted.load(std::memory_order_seq_cst) != 0 && wanted.exchange(0, std::memory_order_seq_cst) != 0) {
    FutexWake(&count, INT_MAX);
  }
}

}  // namespace agentrl::shm
