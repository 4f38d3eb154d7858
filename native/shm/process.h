// Who owns a lock, a record or a hold, in one word: process id and start time, so that a reused id is not mistaken for
// the process that died. Every "is its owner dead?" of the ring and the board is answered here.
#pragma once
#include <cstdint>

namespace agentrl::shm {

// pid in the upper 22 bits, start time (Linux: clock ticks since boot) in the lower 42. Never 0.
using ProcessToken = uint64_t;

ProcessToken SelfToken();
// False once every thread of the process has ended, also while its parent has not yet waited for it. When the system
// gives no answer the process counts as alive: a record is then kept too long, never given away too early.
bool IsAlive(ProcessToken token);
inline int PidOf(ProcessToken token) { return static_cast<int>(token >> 42); }

// Identity of the pid namespace. Processes of different namespaces see different ids for one process, so they must not
// share a segment. 0 where there is no such thing.
uint64_t PidNamespace();

// Monotonic clock, the same for all processes of the machine.
int64_t NowNanos();

}  // namespace agentrl::shm
