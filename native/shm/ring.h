// A queue of variable-size records between processes, in shared memory: many producers, many consumers, any of which may
// be killed at any instruction. A record whose push returned is delivered until one consumer has acknowledged it; an
// acknowledged record is never delivered again.
//
// The records lie one behind the other in a circular buffer, each with a header whose `state` says how far it has come:
//
//     push:  (space) ──▶ reserved ──▶ committed ──▶ taken ──▶ done ──▶ (space)   :ack
//                            │             ▲          │
//               owner died:  └──▶ done     └──────────┘  :owner died, or gave it back
//
// Places in the buffer are given out under a RobustLock, in a few dozen instructions. Copying and checksums run outside
// it; commit and ack are each one store to `state`. Whatever is half done when a process dies belongs to an entry that
// names its owner, and the sweep, which any waiting process runs, moves that entry on.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "segment.h"

namespace agentrl::shm {

enum class Status : int {
  kOk,
  kAgain,      // full, or empty: wait and try again
  kTimeout,    // the wait's time was up
  kClosed,     // push: no more records are taken; pop: and all have been delivered
  kTooLarge,   // the record is above max_record()
  kCorrupt,    // the record failed its checksum and was dropped
  kDamaged,    // a record header makes no sense: the ring cannot be used any more
  kBusy,       // another process has kept the lock too long (it is stopped, not dead)
  kCancelled,  // Cancel was called on this handle
};

// A record that this handle has taken and neither acknowledged nor given back.
struct Taken {
  uint64_t offset = 0;
  uint64_t sequence = 0;    // order of reservation, unique in the ring
  uint32_t bytes = 0;
  uint32_t deliveries = 0;  // how often it has been taken, this time included
};

struct RingStats {
  uint64_t capacity, used;                 // bytes; used counts headers and all that lies behind the oldest live record
  uint64_t pending, taken, reserved;       // records now in these states
  uint64_t records, bytes;                 // committed since creation
  uint64_t acked;                          // acknowledged since creation
  uint64_t push_waits, pop_waits;          // calls that had to wait
  uint64_t reclaimed;                      // reservations of dead producers that were dropped
  uint64_t redelivered;                    // taken records that came back, because of death or of Return
  uint64_t corrupt;                        // dropped for a wrong checksum
  uint64_t recoveries;                     // times the lock was taken over from a dead process
  bool closed;
};

struct RingHeader;

// One process's handle on a ring. Its methods may be called from any thread.
class Ring {
 public:
  // capacity: bytes of the circular buffer, rounded up to 64; records of up to a quarter of it are taken.
  static std::unique_ptr<Ring> Create(const std::string& name, size_t capacity, Error* error);
  static std::unique_ptr<Ring> Open(const std::string& name, Error* error);
  ~Ring();

  Status TryPush(const void* data, size_t bytes);
  // Sleeps until a record of this size fits. While a handle waits long, others' pushes stand back for it, so that a
  // large record is not starved by small ones.
  Status WaitSpace(size_t bytes, int64_t nanos);
  Status Push(const void* data, size_t bytes, int64_t nanos);

  Status TryTake(Taken* taken);
  Status WaitData(int64_t nanos);
  Status Take(Taken* taken, int64_t nanos);
  // Copies a taken record to `to` (taken.bytes long) and checks it. On kCorrupt the record is dropped.
  Status Read(const Taken& taken, void* to);
  // Checks it where it lies, at Payload. That memory is the record's until it is acknowledged or given back.
  Status Verify(const Taken& taken);
  const uint8_t* Payload(const Taken& taken) const;
  // Each returns false when this handle no longer holds the record.
  bool Ack(const Taken& taken);
  bool Return(const Taken& taken);

  // For all processes: pushes are refused from now on, waiters wake, consumers drain what is left.
  void Close();
  // For this handle: its waiters return kCancelled, now and later.
  void Cancel();
  // Gives back every record this handle has taken.
  void ReturnAll();

  // Moves on now what dead processes left; otherwise waiters do so within a fraction of a second. For a supervisor that
  // has just seen a process end.
  Status Reclaim();

  Status Stats(RingStats* stats);
  size_t max_record() const;
  size_t capacity() const;
  const std::string& name() const { return segment_->name(); }
  // The pid of whoever holds the lock, for error messages; 0 if nobody does.
  int lock_holder() const;
  // The circular buffer, and all of the memory.
  uint8_t* buffer() const;
  const std::shared_ptr<Segment>& segment() const { return segment_; }

 private:
  struct Entry;
  Ring(std::shared_ptr<Segment> segment, RingHeader* header);
  Entry* At(uint64_t offset) const;
  Entry* Checked(uint64_t offset, uint64_t tail) const;
  Status Enter(class LockGuard& guard);
  Status Fit(size_t bytes, uint64_t* pad, uint64_t* span);
  void AdvanceHead();
  Status Sweep();
  Status SweepIfOlder(int64_t nanos);
  Status Settle(Entry* entry, uint32_t crc);
  Status Offer(Entry* entry, uint64_t offset);
  template <typename Attempt>
  Status Wait(struct Signal& signal, int64_t nanos, int64_t naps, Attempt attempt);

  std::shared_ptr<Segment> segment_;
  RingHeader* header_;
  ProcessToken self_;
  uint64_t id_;  // of this handle, unique in the ring
  std::atomic<bool> cancelled_{false};
};

}  // namespace agentrl::shm
