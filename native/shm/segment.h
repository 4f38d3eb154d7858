// One named POSIX shared-memory segment: created with its space reserved (a store into an unreserved page of a full
// /dev/shm would kill the process with SIGBUS), opened by others, replaced when its creator is dead.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "process.h"

namespace agentrl::shm {

// What AgentRLError is made of.
struct Error {
  std::string what, got, expected, hint;
};

// Opens every segment. `magic` is stored last and tells that the rest is complete.
struct SegmentHeader {
  std::atomic<uint64_t> magic;
  std::atomic<uint64_t> creator;  // ProcessToken
  uint64_t pid_namespace;
  uint64_t bytes;
};
static_assert(sizeof(SegmentHeader) == 32);

class Segment {
 public:
  // The memory is zero. Complete the content, then call Ready. A segment of this name is replaced if its creator is
  // dead; one of a living process is an error.
  static std::shared_ptr<Segment> Create(const std::string& name, size_t bytes, Error* error);
  static std::shared_ptr<Segment> Open(const std::string& name, uint64_t magic, Error* error);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  void Ready(uint64_t magic) { header()->magic.store(magic, std::memory_order_release); }
  SegmentHeader* header() const { return static_cast<SegmentHeader*>(data_); }
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  size_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }

 private:
  Segment(std::string name, void* data, size_t bytes) : name_(std::move(name)), data_(data), bytes_(bytes) {}
  std::string name_;
  void* data_;
  size_t bytes_;
};

// Removes the name; memory stays until the last process that has it mapped ends. False: there was no such name.
bool Unlink(const std::string& name);
// Removes the name if the process that created the segment is dead.
bool UnlinkStale(const std::string& name);
// The creator's process id if the segment exists and is complete, else 0.
int CreatorOf(const std::string& name);
// Bytes free in the file system that holds shared memory; 0 when it cannot be told.
uint64_t FreeSharedMemory();

}  // namespace agentrl::shm
