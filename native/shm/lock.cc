#include "lock.h"

#include <algorithm>

namespace agentrl::shm {
namespace {

constexpr int kSpins = 64;
// How long a waiter sleeps before it asks whether the holder still lives. Critical sections take well under this.
constexpr int64_t kSuspicion = 2'000'000;

}  // namespace

Locked RobustLock::Acquire(ProcessToken self, int64_t nanos) {
  uint64_t expected = 0;
  if (owner.compare_exchange_strong(expected, self, std::memory_order_acquire)) return Locked::kYes;
  for (int spin = 0; spin < kSpins; ++spin) {
    Relax();
    expected = 0;
    if (owner.load(std::memory_order_relaxed) == 0 &&
        owner.compare_exchange_strong(expected, self, std::memory_order_acquire)) {
      return Locked::kYes;
    }
  }
  const int64_t deadline = NowNanos() + nanos;
  for (;;) {
    const uint32_t seen = released.Read();
    released.wanted.store(1, std::memory_order_seq_cst);
    expected = 0;
    if (owner.compare_exchange_strong(expected, self, std::memory_order_seq_cst)) return Locked::kYes;
    const int64_t left = deadline - NowNanos();
    if (left <= 0) return Locked::kNo;
    if (FutexWait(&released.count, seen, std::min(left, kSuspicion))) continue;
    // A dead holder's token is never used again, so this exchange cannot hit a lock that someone else has since taken.
    uint64_t holder = owner.load(std::memory_order_seq_cst);
    if (holder != 0 && holder != self && !IsAlive(holder) &&
        owner.compare_exchange_strong(holder, self, std::memory_order_seq_cst)) {
      return Locked::kTakenOver;
    }
  }
}

void RobustLock::Release() {
  owner.store(0, std::memory_order_seq_cst);
  // All are woken: the flag is one for all of them, and whoever loses the race sets it again.
  if (released.wanted.load(std::memory_order_seq_cst) != 0) released.Notify();
}

}  // namespace agentrl::shm
