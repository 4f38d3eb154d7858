// A mutex in shared memory that survives the death of its holder. The lock word is the holder's ProcessToken: whoever
// waits looks now and then whether that process is alive, and takes the lock over if not; it then knows that it must
// repair. (pthread's robust mutexes do the same through the kernel, but do not exist on macOS, and thread sanitizer
// cannot see into them; here every hand-over is an atomic operation it understands.)
#pragma once
#include <atomic>
#include <cstdint>

#include "process.h"
#include "wakeup.h"

namespace agentrl::shm {

enum class Locked { kNo, kYes, kTakenOver };

struct RobustLock {
  std::atomic<uint64_t> owner;
  Signal released;

  // kNo: the time was up. kTakenOver: the last holder died inside; the caller holds the lock and repairs.
  Locked Acquire(ProcessToken self, int64_t nanos);
  void Release();
};

// Holds the lock for a scope.
class LockGuard {
 public:
  LockGuard(RobustLock& lock, ProcessToken self, int64_t nanos) : lock_(lock), state_(lock.Acquire(self, nanos)) {}
  ~LockGuard() {
    if (state_ != Locked::kNo) lock_.Release();
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;
  Locked state() const { return state_; }

 private:
  RobustLock& lock_;
  Locked state_;
};

}  // namespace agentrl::shm
