#include "counters.h"

#include "wakeup.h"

namespace agentrl::shm {
namespace {
constexpr uint64_t kMagic = 0x41524c43'4e545201;  // "ARLCNTR", layout 1
}

struct CountersHeader {
  SegmentHeader segment;
  Signal changed;
  alignas(64) std::atomic<int64_t> counter[kCounters];
};

std::unique_ptr<Counters> Counters::Create(const std::string& name, Error* error) {
  auto segment = Segment::Create(name, sizeof(CountersHeader), error);
  if (segment == nullptr) return nullptr;
  segment->Ready(kMagic);
  auto* header = reinterpret_cast<CountersHeader*>(segment->data());
  return std::unique_ptr<Counters>(new Counters(std::move(segment), header));
}

std::unique_ptr<Counters> Counters::Open(const std::string& name, Error* error) {
  auto segment = Segment::Open(name, kMagic, error);
  if (segment == nullptr) return nullptr;
  auto* header = reinterpret_cast<CountersHeader*>(segment->data());
  return std::unique_ptr<Counters>(new Counters(std::move(segment), header));
}

int64_t Counters::Load(size_t index) const { return header_->counter[index].load(); }

void Counters::Store(size_t index, int64_t value) {
  header_->counter[index].store(value);
  header_->changed.Notify();
}

int64_t Counters::Add(size_t index, int64_t by) {
  const int64_t sum = header_->counter[index].fetch_add(by) + by;
  header_->changed.Notify();
  return sum;
}

uint32_t Counters::Changes() const { return header_->changed.Read(); }

bool Counters::WaitChange(uint32_t seen, int64_t nanos) {
  const int64_t deadline = NowNanos() + nanos;
  while (header_->changed.Read() == seen) {
    const int64_t left = deadline - NowNanos();
    if (left <= 0 || cancelled_.load()) return false;
    header_->changed.Wait(seen, left);
  }
  return true;
}

void Counters::Cancel() {
  cancelled_.store(true);
  header_->changed.Notify();
}

}  // namespace agentrl::shm
