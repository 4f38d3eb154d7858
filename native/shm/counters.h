// A named block of 64-bit counters for the few numbers that the processes of a run share: read, set, added to and waited
// for without a message.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "segment.h"

namespace agentrl::shm {

inline constexpr size_t kCounters = 64;

struct CountersHeader;

class Counters {
 public:
  static std::unique_ptr<Counters> Create(const std::string& name, Error* error);
  static std::unique_ptr<Counters> Open(const std::string& name, Error* error);

  int64_t Load(size_t index) const;
  void Store(size_t index, int64_t value);
  int64_t Add(size_t index, int64_t by);  // returns the sum
  // How often any counter has been set or added to.
  uint32_t Changes() const;
  // Sleeps until Changes differs from `seen`. False: time was up or Cancel was called.
  bool WaitChange(uint32_t seen, int64_t nanos);
  void Cancel();
  bool cancelled() const { return cancelled_.load(); }

 private:
  Counters(std::shared_ptr<Segment> segment, CountersHeader* header)
      : segment_(std::move(segment)), header_(header) {}
  std::shared_ptr<Segment> segment_;
  CountersHeader* header_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace agentrl::shm
