#include "board.h"

#include <algorithm>
#include <map>

#include "lock.h"

namespace agentrl::shm {
namespace {

constexpr uint64_t kMagic = 0x41524c57'42524401;  // "ARLWBRD", layout 1
constexpr size_t kPage = 4096;
constexpr size_t kMaxHolds = 256;
constexpr int64_t kLockPatience = 1'000'000'000;

constexpr size_t PageAlign(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

struct SlotState {
  std::atomic<int64_t> version;   // kNoVersion while it is written or holds nothing
  std::atomic<uint64_t> writer;   // ProcessToken of whoever writes it, else 0
  std::atomic<uint64_t> checksum;
};

struct HoldState {
  std::atomic<uint64_t> reader;  // ProcessToken; the hold exists while this is not 0
  std::atomic<uint64_t> reader_id;
  std::atomic<uint64_t> serial;
  std::atomic<uint32_t> slot;
};

// `latest` is one word: the version above, its slot in the low 8 bits. 0: nothing published.
uint64_t Pack(int64_t version, size_t slot) { return static_cast<uint64_t>(version + 1) << 8 | slot; }
int64_t VersionIn(uint64_t packed) { return static_cast<int64_t>(packed >> 8) - 1; }

}  // namespace

struct BoardHeader {
  SegmentHeader segment;
  uint64_t slots, bytes, stride;
  alignas(64) std::atomic<uint64_t> latest;
  Signal published;
  alignas(64) RobustLock lock;
  std::atomic<uint64_t> handles, serials;
  SlotState slot[kMaxSlots];
  HoldState hold[kMaxHolds];
};

Board::Board(std::shared_ptr<Segment> segment, BoardHeader* header)
    : segment_(std::move(segment)), header_(header), self_(SelfToken()), id_(header->handles.fetch_add(1) + 1) {}

std::unique_ptr<Board> Board::Create(const std::string& name, size_t slots, size_t bytes, Error* error) {
  const size_t stride = PageAlign(bytes);
  auto segment = Segment::Create(name, PageAlign(sizeof(BoardHeader)) + slots * stride, error);
  if (segment == nullptr) return nullptr;
  auto* header = reinterpret_cast<BoardHeader*>(segment->data());
  header->slots = slots;
  header->bytes = bytes;
  header->stride = stride;
  for (SlotState& slot : header->slot) slot.version.store(kNoVersion);
  segment->Ready(kMagic);
  return std::unique_ptr<Board>(new Board(std::move(segment), header));
}

std::unique_ptr<Board> Board::Open(const std::string& name, Error* error) {
  auto segment = Segment::Open(name, kMagic, error);
  if (segment == nullptr) return nullptr;
  auto* header = reinterpret_cast<BoardHeader*>(segment->data());
  return std::unique_ptr<Board>(new Board(std::move(segment), header));
}

Board::~Board() {
  Abort();
  ReleaseAll();
}

size_t Board::slots() const { return header_->slots; }
size_t Board::bytes() const { return header_->bytes; }
uint8_t* Board::SlotData(size_t slot) const {
  return segment_->data() + PageAlign(sizeof(BoardHeader)) + slot * header_->stride;
}
int64_t Board::Latest() const { return VersionIn(header_->latest.load(std::memory_order_acquire)); }
int Board::LatestSlot() const {
  const uint64_t packed = header_->latest.load(std::memory_order_acquire);
  return packed == 0 ? -1 : static_cast<int>(packed & 0xff);
}

// A lock taken over needs no repair here: every change below is complete after one store, and what precedes that store
// is in a slot or hold that does not exist without it.
bool Board::Enter(LockGuard& guard, Error* error) const {
  if (guard.state() != Locked::kNo) return true;
  error->what = "the weight board is locked";
  error->got = segment_->name() + ", by process " + std::to_string(PidOf(header_->lock.owner.load()));
  error->expected = "a lock held for microseconds";
  error->hint = "that process is stopped (debugger, SIGSTOP, frozen container): let it go on, or kill it";
  return false;
}

int Board::BeginWrite(Error* error) {
  LockGuard guard(header_->lock, self_, kLockPatience);
  if (!Enter(guard, error)) return -1;
  const int latest_slot = LatestSlot();
  const int64_t latest = Latest();
  for (size_t i = 0; i < header_->slots; ++i) {
    SlotState& slot = header_->slot[i];
    const ProcessToken writer = slot.writer.load();
    if (writer != 0 && IsAlive(writer)) {
      error->what = "a write to the weight board is under way";
      error->got = "slot " + std::to_string(i) + ", by process " + std::to_string(PidOf(writer));
      error->expected = "one writer, one version at a time";
      error->hint = "publish or abort the version begun before";
      return -1;
    }
    // Left by a dead writer: half written, or complete but never made the latest. A version above the latest was not
    // seen by anyone, and will be written again.
    if (writer != 0 || slot.version.load() > latest) {
      slot.version.store(kNoVersion);
      slot.writer.store(0);
    }
  }
  std::map<uint32_t, std::vector<int>> holders;
  for (HoldState& hold : header_->hold) {
    const ProcessToken reader = hold.reader.load(std::memory_order_acquire);
    if (reader == 0) continue;
    if (IsAlive(reader)) {
      holders[hold.slot.load()].push_back(PidOf(reader));
    } else {
      hold.reader.store(0);
    }
  }
  int best = -1;
  for (size_t i = 0; i < header_->slots; ++i) {
    if (static_cast<int>(i) == latest_slot || holders.count(static_cast<uint32_t>(i)) != 0) continue;
    // kNoVersion is below every version, so empty slots come first.
    if (best < 0 || header_->slot[i].version.load() < header_->slot[best].version.load()) best = static_cast<int>(i);
  }
  if (best < 0) {
    error->what = "every slot of the weight board is in use";
    for (const auto& [slot, pids] : holders) {
      if (!error->got.empty()) error->got += "; ";
      error->got += "version " + std::to_string(header_->slot[slot].version.load()) + " held by process";
      for (const int pid : pids) error->got += " " + std::to_string(pid);
    }
    if (latest_slot >= 0 && holders.count(static_cast<uint32_t>(latest_slot)) == 0) {
      error->got += (error->got.empty() ? "version " : "; version ") + std::to_string(latest) + " is the latest";
    }
    error->expected = "a slot that is neither held nor the latest, of " + std::to_string(header_->slots);
    error->hint = "release versions that are no longer decoded from, or create the board with more slots";
    return -1;
  }
  SlotState& slot = header_->slot[best];
  slot.version.store(kNoVersion);
  slot.writer.store(self_);
  writing_.store(best);
  return best;
}

bool Board::Publish(int64_t version, uint64_t checksum, Error* error) {
  const int index = writing_.load();
  if (index < 0) {
    error->what = "nothing to publish on the weight board";
    error->expected = "beginWrite before publish";
    error->hint = "call beginWrite, fill its data, then publish";
    return false;
  }
  LockGuard guard(header_->lock, self_, kLockPatience);
  if (!Enter(guard, error)) return false;
  if (version <= Latest()) {
    error->what = "weight versions must rise";
    error->got = "version " + std::to_string(version);
    error->expected = "above the latest, " + std::to_string(Latest());
    error->hint = "a run that starts again from an older checkpoint makes a new board";
    return false;
  }
  SlotState& slot = header_->slot[index];
  slot.checksum.store(checksum);
  slot.version.store(version);
  slot.writer.store(0);
  // The publication: everything before this store is only preparation.
  header_->latest.store(Pack(version, static_cast<size_t>(index)), std::memory_order_release);
  writing_.store(-1);
  header_->published.Notify();
  return true;
}

bool Board::Abort() {
  const int index = writing_.exchange(-1);
  if (index < 0) return false;
  header_->slot[index].writer.store(0);
  return true;
}

bool Board::Acquire(int64_t version, Hold* hold, Error* error) {
  LockGuard guard(header_->lock, self_, kLockPatience);
  if (!Enter(guard, error)) return false;
  const int64_t latest = Latest();
  if (version == kNoVersion) version = latest;
  if (version < 0 || version > latest) return false;
  size_t index = 0;
  while (index < header_->slots && header_->slot[index].version.load() != version) ++index;
  if (index == header_->slots) return false;
  for (const bool sweep : {false, true}) {
    for (size_t place = 0; place < kMaxHolds; ++place) {
      HoldState& entry = header_->hold[place];
      const ProcessToken reader = entry.reader.load(std::memory_order_acquire);
      if (reader != 0 && !(sweep && !IsAlive(reader))) continue;
      const uint64_t serial = header_->serials.fetch_add(1) + 1;
      entry.reader.store(0);
      entry.reader_id.store(id_);
      entry.serial.store(serial);
      entry.slot.store(static_cast<uint32_t>(index));
      entry.reader.store(self_, std::memory_order_release);
      *hold = {version, header_->slot[index].checksum.load(), static_cast<uint32_t>(index),
               static_cast<uint32_t>(place), serial};
      return true;
    }
  }
  error->what = "too many holds on the weight board";
  error->got = std::to_string(kMaxHolds) + " held by living processes";
  error->expected = "a few per process";
  error->hint = "release every handle that acquire returns";
  return false;
}

bool Board::Release(const Hold& hold) {
  if (hold.serial == 0 || hold.place >= kMaxHolds) return false;
  HoldState& entry = header_->hold[hold.place];
  if (entry.serial.load() != hold.serial || entry.reader.load() != self_) return false;
  // Without the lock: the entry is this process's own until this store, and after it the slot may be overwritten.
  entry.reader.store(0, std::memory_order_release);
  return true;
}

void Board::ReleaseAll() {
  for (HoldState& entry : header_->hold) {
    if (entry.reader.load(std::memory_order_acquire) == self_ && entry.reader_id.load() == id_) {
      entry.reader.store(0, std::memory_order_release);
    }
  }
}

bool Board::Versions(std::vector<BoardVersion>* versions, Error* error) {
  LockGuard guard(header_->lock, self_, kLockPatience);
  if (!Enter(guard, error)) return false;
  versions->clear();
  for (size_t i = 0; i < header_->slots; ++i) {
    const int64_t version = header_->slot[i].version.load();
    if (version < 0 || version > Latest()) continue;
    BoardVersion found{version, static_cast<uint32_t>(i), {}};
    for (HoldState& hold : header_->hold) {
      const ProcessToken reader = hold.reader.load(std::memory_order_acquire);
      if (reader != 0 && hold.slot.load() == i && IsAlive(reader)) found.readers.push_back(PidOf(reader));
    }
    versions->push_back(std::move(found));
  }
  std::sort(versions->begin(), versions->end(),
            [](const BoardVersion& a, const BoardVersion& b) { return a.version < b.version; });
  return true;
}

bool Board::WaitFor(int64_t version, int64_t nanos) {
  const int64_t deadline = NowNanos() + nanos;
  for (;;) {
    const uint32_t seen = header_->published.Read();
    if (Latest() >= version) return true;
    const int64_t left = deadline - NowNanos();
    if (left <= 0 || cancelled_.load()) return false;
    header_->published.Wait(seen, left);
  }
}

void Board::Cancel() {
  cancelled_.store(true);
  header_->published.Notify();
}

}  // namespace agentrl::shm
