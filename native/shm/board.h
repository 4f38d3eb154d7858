// Versions of the weights in shared memory: the learner writes a version into a free slot and makes it the latest by one
// atomic store; rollout processes hold a version's slot while they decode from it, straight from this memory. A slot that
// anyone holds is never written. Holds and half-written slots of dead processes are reclaimed when a slot is needed.
//
// Taking a hold and choosing a slot to overwrite both happen under one lock, so a reader cannot come to hold a slot that
// is being written. Readers of the latest version's number take no lock.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "segment.h"

namespace agentrl::shm {

inline constexpr size_t kMaxSlots = 64;
inline constexpr int64_t kNoVersion = -1;

struct BoardHeader;

struct Hold {
  int64_t version = kNoVersion;
  uint64_t checksum = 0;
  uint32_t slot = 0;
  uint32_t place = 0;   // in the table of holds
  uint64_t serial = 0;  // 0: not held
};

struct BoardVersion {
  int64_t version;
  uint32_t slot;
  std::vector<int> readers;  // process ids, one per hold
};

// One process's handle. Its methods may be called from any thread.
class Board {
 public:
  // bytes: size of one version. Each slot starts on a page.
  static std::unique_ptr<Board> Create(const std::string& name, size_t slots, size_t bytes, Error* error);
  static std::unique_ptr<Board> Open(const std::string& name, Error* error);
  ~Board();

  // The slot to write the next version into: one that holds nothing, else that of the oldest version which is neither
  // the latest nor held. -1 and an error if there is none, or another write is under way.
  int BeginWrite(Error* error);
  // Versions rise. After this returns true, readers get `version` when they ask for the latest.
  bool Publish(int64_t version, uint64_t checksum, Error* error);
  // Gives the slot up; what was in it before is gone.
  bool Abort();

  int64_t Latest() const;
  // Holds `version`, or the latest for kNoVersion. False without an error: it is not (or no longer) there.
  bool Acquire(int64_t version, Hold* hold, Error* error);
  bool Release(const Hold& hold);
  void ReleaseAll();
  bool Versions(std::vector<BoardVersion>* versions, Error* error);

  // Sleeps until the latest version is at least `version`. False: time was up or Cancel was called.
  bool WaitFor(int64_t version, int64_t nanos);
  void Cancel();
  bool cancelled() const { return cancelled_.load(); }

  size_t slots() const;
  size_t bytes() const;
  uint8_t* SlotData(size_t slot) const;
  const std::shared_ptr<Segment>& segment() const { return segment_; }

 private:
  Board(std::shared_ptr<Segment> segment, BoardHeader* header);
  bool Enter(class LockGuard& guard, Error* error) const;
  int LatestSlot() const;

  std::shared_ptr<Segment> segment_;
  BoardHeader* header_;
  ProcessToken self_;
  uint64_t id_;
  std::atomic<int> writing_{-1};
  std::atomic<bool> cancelled_{false};
};

}  // namespace agentrl::shm
