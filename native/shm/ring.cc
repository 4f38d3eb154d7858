#include "ring.h"

#include <algorithm>
#include <ctime>
#include <new>
#include <vector>

#include "crc32c.h"
#include "lock.h"

namespace agentrl::shm {
namespace {

constexpr uint64_t kMagic = 0x41524c52'494e4701;  // "ARLRING", layout 1
constexpr size_t kLine = 64;
constexpr size_t kHeaderBytes = 4096;
// The lock is held for microseconds; whoever keeps it long has lost its processor, or is stopped. The calls that do not
// wait (the event loop makes them) soon give up, and the waiting calls take over.
constexpr int64_t kShortPatience = 20'000'000;
constexpr int64_t kLockPatience = 250'000'000;
// How stale the knowledge about dead processes may be: while a waiter has nothing to do, and in passing.
constexpr int64_t kSweepIdle = 20'000'000;
constexpr int64_t kSweepBusy = 500'000'000;
// A push that has waited this long claims the next space; the claim lapses when its owner does not renew it.
constexpr int64_t kClaimAfter = 10'000'000;
// A producer that finds the ring full first naps: to be woken by every ack for one record's worth of space costs both
// sides more than the copy. Until the naps are over it waits for an eighth of the ring.
constexpr int64_t kNap = 100'000;
constexpr int64_t kNapsLast = 2'000'000;
constexpr int64_t kClaimLasts = 4 * kSlice;

enum State : uint32_t { kReserved = 1, kCommitted = 2, kTaken = 3, kDone = 4 };

constexpr uint64_t Align(uint64_t bytes) { return (bytes + kLine - 1) & ~uint64_t{kLine - 1}; }

// Ties a header to its place, so that a stale or overwritten one is not walked into.
uint32_t HeaderCheck(uint64_t offset, uint64_t sequence, uint64_t span, uint32_t bytes) {
  uint64_t hash = offset * 0x9e3779b97f4a7c15 ^ sequence;
  hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9 ^ span;
  hash = (hash ^ hash >> 32) * 0x94d049bb133111eb ^ bytes;
  return static_cast<uint32_t>(hash ^ hash >> 31);
}

void Sleep(int64_t nanos) {
  const timespec time{static_cast<time_t>(nanos / 1'000'000'000), static_cast<long>(nanos % 1'000'000'000)};
  nanosleep(&time, nullptr);
}

void Add(std::atomic<uint64_t>& counter, uint64_t by = 1) { counter.fetch_add(by, std::memory_order_relaxed); }

}  // namespace

// head, next and tail are byte counts since creation; the place in the buffer is the count modulo capacity.
struct RingHeader {
  SegmentHeader segment;
  uint64_t capacity;
  std::atomic<uint32_t> closed;

  alignas(kLine) RobustLock lock;
  // All of these are written under the lock only. Each is moved by one store, after what it uncovers is complete.
  alignas(kLine) std::atomic<uint64_t> head;  // oldest entry that is not done
  std::atomic<uint64_t> next;                 // no committed or reserved entry lies before it
  std::atomic<uint64_t> tail;                 // end of the newest entry
  std::atomic<uint64_t> sequence;
  std::atomic<int64_t> swept;                 // when, NowNanos
  std::atomic<int64_t> sweep_nanos;           // how long it took
  std::atomic<uint64_t> claim;                // handle that gets the next space, or 0
  std::atomic<int64_t> claim_until;

  alignas(kLine) Signal data;
  alignas(kLine) Signal space;

  // Not exact across kills: a process may die between a record's store and its count.
  alignas(kLine) std::atomic<uint64_t> handles, records, bytes, push_waits, reclaimed, recoveries;
  alignas(kLine) std::atomic<uint64_t> acked, pop_waits, redelivered, corrupt;
};
static_assert(sizeof(RingHeader) <= kHeaderBytes);

struct alignas(kLine) Ring::Entry {
  std::atomic<uint32_t> state;
  uint32_t bytes;
  uint64_t span;  // header, payload and padding
  uint64_t sequence;
  std::atomic<uint64_t> owner;     // ProcessToken: who reserved it, or who has taken it
  std::atomic<uint64_t> owner_id;  // the owner's handle
  uint32_t deliveries;
  uint32_t crc;
  uint32_t check;

  uint8_t* payload() { return reinterpret_cast<uint8_t*>(this + 1); }
};

Ring::Ring(std::shared_ptr<Segment> segment, RingHeader* header)
    : segment_(std::move(segment)), header_(header), self_(SelfToken()), id_(header->handles.fetch_add(1) + 1) {}

std::unique_ptr<Ring> Ring::Create(const std::string& name, size_t capacity, Error* error) {
  static_assert(sizeof(Entry) == kLine);
  capacity = Align(capacity);
  auto segment = Segment::Create(name, kHeaderBytes + capacity, error);
  if (segment == nullptr) return nullptr;
  auto* header = reinterpret_cast<RingHeader*>(segment->data());
  header->capacity = capacity;
  segment->Ready(kMagic);
  return std::unique_ptr<Ring>(new Ring(std::move(segment), header));
}

std::unique_ptr<Ring> Ring::Open(const std::string& name, Error* error) {
  auto segment = Segment::Open(name, kMagic, error);
  if (segment == nullptr) return nullptr;
  auto* header = reinterpret_cast<RingHeader*>(segment->data());
  return std::unique_ptr<Ring>(new Ring(std::move(segment), header));
}

Ring::~Ring() { ReturnAll(); }

size_t Ring::capacity() const { return header_->capacity; }
size_t Ring::max_record() const { return std::min<uint64_t>(header_->capacity / 4, UINT32_MAX); }
uint8_t* Ring::buffer() const { return segment_->data() + kHeaderBytes; }
int Ring::lock_holder() const { return PidOf(header_->lock.owner.load()); }

Ring::Entry* Ring::At(uint64_t offset) const {
  return reinterpret_cast<Entry*>(buffer() + offset % header_->capacity);
}

// The entry at `offset`, or null if its header is not one that this code wrote there.
Ring::Entry* Ring::Checked(uint64_t offset, uint64_t tail) const {
  Entry* entry = At(offset);
  const uint64_t span = entry->span;
  if (span < kLine || span % kLine != 0 || span > tail - offset ||
      offset % header_->capacity + span > header_->capacity || entry->bytes > span - kLine ||
      entry->check != HeaderCheck(offset, entry->sequence, span, entry->bytes)) {
    return nullptr;
  }
  return entry;
}

// To be called first under the lock.
Status Ring::Enter(LockGuard& guard) {
  if (guard.state() == Locked::kNo) return Status::kBusy;
  if (guard.state() == Locked::kYes) return Status::kOk;
  Add(header_->recoveries);
  // The dead holder may have stopped between any two stores. head and tail are right after each of them; next may lag
  // or lead, and starting at head is always right.
  header_->next.store(header_->head.load());
  return Sweep();
}

void Ring::AdvanceHead() {
  uint64_t head = header_->head.load(std::memory_order_relaxed);
  const uint64_t tail = header_->tail.load(std::memory_order_relaxed);
  const uint64_t old = head;
  while (head < tail) {
    Entry* entry = Checked(head, tail);
    if (entry == nullptr || entry->state.load(std::memory_order_acquire) != kDone) break;
    head += entry->span;
  }
  if (head == old) return;
  // next first: it must never be behind head, where entries are overwritten.
  if (header_->next.load(std::memory_order_relaxed) < head) header_->next.store(head, std::memory_order_relaxed);
  header_->head.store(head, std::memory_order_release);
}

// Makes a taken entry available again. Under the lock.
Status Ring::Offer(Entry* entry, uint64_t offset) {
  if (header_->next.load(std::memory_order_relaxed) > offset) header_->next.store(offset, std::memory_order_relaxed);
  // The holder may be acknowledging it at this instant, without the lock.
  uint32_t state = kTaken;
  if (!entry->state.compare_exchange_strong(state, kCommitted, std::memory_order_acq_rel)) return Status::kAgain;
  Add(header_->redelivered);
  return Status::kOk;
}

// Moves on what dead processes left. Under the lock.
Status Ring::Sweep() {
  const int64_t start = NowNanos();
  // Also if it cannot finish, so that a damaged ring is not walked again and again.
  header_->swept.store(start, std::memory_order_relaxed);
  struct Known {
    ProcessToken token;
    bool alive;
  };
  std::vector<Known> known;
  const auto alive = [&](ProcessToken token) {
    if (token == self_) return true;
    for (const Known& process : known) {
      if (process.token == token) return process.alive;
    }
    known.push_back({token, IsAlive(token)});
    return known.back().alive;
  };
  bool offered = false, dropped = false;
  const uint64_t tail = header_->tail.load(std::memory_order_relaxed);
  for (uint64_t offset = header_->head.load(std::memory_order_relaxed); offset < tail;) {
    Entry* entry = Checked(offset, tail);
    if (entry == nullptr) return Status::kDamaged;
    const uint32_t state = entry->state.load(std::memory_order_acquire);
    if ((state == kReserved || state == kTaken) && !alive(entry->owner.load(std::memory_order_relaxed))) {
      if (state == kTaken) {
        offered |= Offer(entry, offset) == Status::kOk;
      } else if (entry->state.load(std::memory_order_acquire) == kReserved) {
        // Read once more: it may have been committed after the first look and before its owner died.
        entry->state.store(kDone, std::memory_order_release);
        Add(header_->reclaimed);
        dropped = true;
      } else {
        offered = true;
      }
    }
    offset += entry->span;
  }
  header_->sweep_nanos.store(NowNanos() - start, std::memory_order_relaxed);
  if (offered) header_->data.Notify();
  if (dropped) header_->space.Notify();
  return Status::kOk;
}

// In a large ring full of small records a sweep takes long: it then runs in at most a twentieth of the time.
Status Ring::SweepIfOlder(int64_t nanos) {
  const int64_t rest = std::max(nanos, 20 * header_->sweep_nanos.load(std::memory_order_relaxed));
  return NowNanos() - header_->swept.load(std::memory_order_relaxed) < rest ? Status::kOk : Sweep();
}

// Is there room for `bytes` now? Under the lock. A record is never split over the buffer's end: `pad` bytes are skipped.
Status Ring::Fit(size_t bytes, uint64_t* pad, uint64_t* span) {
  if (header_->closed.load(std::memory_order_acquire) != 0) return Status::kClosed;
  const uint64_t claim = header_->claim.load(std::memory_order_relaxed);
  if (claim != 0 && claim != id_ && NowNanos() < header_->claim_until.load(std::memory_order_relaxed)) {
    return Status::kAgain;
  }
  const uint64_t capacity = header_->capacity;
  const uint64_t tail = header_->tail.load(std::memory_order_relaxed);
  const uint64_t place = tail % capacity;
  *span = Align(sizeof(Entry) + bytes);
  *pad = place + *span > capacity ? capacity - place : 0;
  const auto fits = [&] {
    return tail + *pad + *span - header_->head.load(std::memory_order_relaxed) <= capacity;
  };
  if (fits()) return Status::kOk;
  AdvanceHead();
  if (fits()) return Status::kOk;
  const Status swept = SweepIfOlder(kSweepIdle);
  if (swept != Status::kOk) return swept;
  AdvanceHead();
  return fits() ? Status::kOk : Status::kAgain;
}

Status Ring::TryPush(const void* data, size_t bytes) {
  if (bytes > max_record()) return Status::kTooLarge;
  Entry* entry;
  bool claimed = false;
  {
    LockGuard guard(header_->lock, self_, kShortPatience);
    Status status = Enter(guard);
    if (status != Status::kOk) return status;
    uint64_t pad, span;
    status = Fit(bytes, &pad, &span);
    if (status != Status::kOk) return status;
    const uint64_t sequence = header_->sequence.load(std::memory_order_relaxed) + 1;
    header_->sequence.store(sequence, std::memory_order_relaxed);
    uint64_t tail = header_->tail.load(std::memory_order_relaxed);
    const auto write = [&](uint64_t length, State state, uint32_t payload) {
      Entry* at = new (At(tail)) Entry;
      at->bytes = payload;
      at->span = length;
      at->sequence = sequence;
      at->owner.store(self_, std::memory_order_relaxed);
      at->owner_id.store(id_, std::memory_order_relaxed);
      at->deliveries = 0;
      at->crc = 0;
      at->check = HeaderCheck(tail, sequence, length, payload);
      at->state.store(state, std::memory_order_relaxed);
      tail += length;
      // The entry exists from this store on; before it there is only unused space.
      header_->tail.store(tail, std::memory_order_release);
      return at;
    };
    if (pad != 0) write(pad, kDone, 0);
    entry = write(span, kReserved, static_cast<uint32_t>(bytes));
    if (header_->claim.load(std::memory_order_relaxed) == id_) {
      header_->claim.store(0, std::memory_order_relaxed);
      claimed = true;
    }
  }
  entry->crc = Crc32cCopy(entry->payload(), data, bytes);
  entry->state.store(kCommitted, std::memory_order_release);
  Add(header_->records);
  Add(header_->bytes, bytes);
  header_->data.Notify();
  if (claimed) header_->space.Notify();
  return Status::kOk;
}

// Tries until it works, the time is up, or the handle is cancelled. For the first `naps` nanoseconds it asks for no
// wake-ups.
template <typename Attempt>
Status Ring::Wait(Signal& signal, int64_t nanos, int64_t naps, Attempt attempt) {
  const int64_t start = NowNanos();
  for (;;) {
    if (cancelled_.load()) return Status::kCancelled;
    const uint32_t seen = signal.Read();
    const int64_t waited = NowNanos() - start;
    const Status status = attempt(waited);
    // A stopped lock holder may go on: only the deadline ends the wait for it.
    if (status != Status::kAgain && status != Status::kBusy) return status;
    const int64_t left = nanos - (NowNanos() - start);
    if (left <= 0) return status == Status::kBusy ? status : Status::kTimeout;
    if (status != Status::kAgain) continue;
    if (waited < naps) {
      Sleep(std::min(left, kNap));
    } else {
      signal.Wait(seen, left);
    }
  }
}

Status Ring::WaitSpace(size_t bytes, int64_t nanos) {
  if (bytes > max_record()) return Status::kTooLarge;
  Add(header_->push_waits);
  const Status status = Wait(header_->space, nanos, kNapsLast, [&](int64_t waited) {
    LockGuard guard(header_->lock, self_, kLockPatience);
    Status attempt = Enter(guard);
    if (attempt != Status::kOk) return attempt;
    uint64_t pad, span;
    const size_t enough = header_->capacity / 8;
    attempt = Fit(waited < kNapsLast && nanos > kNapsLast ? std::max(bytes, enough) : bytes, &pad, &span);
    const int64_t now = NowNanos();
    const uint64_t claim = header_->claim.load(std::memory_order_relaxed);
    const bool vacant = claim == 0 || claim == id_ || now >= header_->claim_until.load(std::memory_order_relaxed);
    if (vacant && waited > kClaimAfter && (attempt == Status::kOk || attempt == Status::kAgain)) {
      header_->claim_until.store(now + kClaimLasts, std::memory_order_relaxed);
      header_->claim.store(id_, std::memory_order_relaxed);
    }
    return attempt;
  });
  if (status != Status::kOk && header_->claim.load() == id_) {
    LockGuard guard(header_->lock, self_, kLockPatience);
    if (Enter(guard) == Status::kOk && header_->claim.load() == id_) header_->claim.store(0);
    header_->space.Notify();
  }
  return status;
}

Status Ring::Push(const void* data, size_t bytes, int64_t nanos) {
  const int64_t deadline = NowNanos() + nanos;
  for (;;) {
    Status status = TryPush(data, bytes);
    if (status != Status::kAgain && status != Status::kBusy) return status;
    status = WaitSpace(bytes, deadline - NowNanos());
    if (status != Status::kOk) return status;
  }
}

Status Ring::TryTake(Taken* taken) {
  LockGuard guard(header_->lock, self_, kShortPatience);
  Status status = Enter(guard);
  if (status == Status::kOk) status = SweepIfOlder(kSweepBusy);
  if (status != Status::kOk) return status;
  for (bool swept = false;; swept = true) {
    const uint64_t tail = header_->tail.load(std::memory_order_relaxed);
    bool coming = false;
    for (uint64_t offset = header_->next.load(std::memory_order_relaxed); offset < tail;) {
      Entry* entry = Checked(offset, tail);
      if (entry == nullptr) return Status::kDamaged;
      const uint32_t state = entry->state.load(std::memory_order_acquire);
      if (state == kReserved) coming = true;
      if (state == kCommitted) {
        entry->owner_id.store(id_, std::memory_order_relaxed);
        entry->owner.store(self_, std::memory_order_relaxed);
        entry->deliveries += 1;
        entry->state.store(kTaken, std::memory_order_release);
      }
      // A producer that is slow, or stopped, holds up nobody: records behind its reservation are taken first.
      if (!coming) header_->next.store(offset + entry->span, std::memory_order_relaxed);
      if (state == kCommitted) {
        *taken = {offset, entry->sequence, entry->bytes, entry->deliveries};
        return Status::kOk;
      }
      offset += entry->span;
    }
    const bool closed = header_->closed.load(std::memory_order_acquire) != 0;
    if (swept) return closed && !coming ? Status::kClosed : Status::kAgain;
    // Nothing here: perhaps with the dead. Before "closed and drained" is said, that must be certain.
    status = closed ? Sweep() : SweepIfOlder(kSweepIdle);
    if (status != Status::kOk) return status;
  }
}

Status Ring::WaitData(int64_t nanos) {
  Add(header_->pop_waits);
  return Wait(header_->data, nanos, 0, [&](int64_t) {
    LockGuard guard(header_->lock, self_, kLockPatience);
    Status status = Enter(guard);
    if (status == Status::kOk) status = SweepIfOlder(kSweepIdle);
    if (status != Status::kOk) return status;
    const uint64_t tail = header_->tail.load(std::memory_order_relaxed);
    bool coming = false;
    for (uint64_t offset = header_->next.load(std::memory_order_relaxed); offset < tail;) {
      Entry* entry = Checked(offset, tail);
      if (entry == nullptr) return Status::kDamaged;
      const uint32_t state = entry->state.load(std::memory_order_acquire);
      if (state == kCommitted) return Status::kOk;
      coming |= state == kReserved;
      offset += entry->span;
    }
    return header_->closed.load(std::memory_order_acquire) != 0 && !coming ? Status::kClosed : Status::kAgain;
  });
}

Status Ring::Take(Taken* taken, int64_t nanos) {
  const int64_t deadline = NowNanos() + nanos;
  for (;;) {
    Status status = TryTake(taken);
    if (status != Status::kAgain && status != Status::kBusy) return status;
    status = WaitData(deadline - NowNanos());
    // On kClosed, TryTake has the last word.
    if (status != Status::kOk && status != Status::kClosed) return status;
  }
}

// A record with a wrong checksum is dropped.
Status Ring::Settle(Entry* entry, uint32_t crc) {
  if (crc == entry->crc) return Status::kOk;
  Add(header_->corrupt);
  entry->state.store(kDone, std::memory_order_release);
  header_->space.Notify();
  return Status::kCorrupt;
}

Status Ring::Read(const Taken& taken, void* to) {
  Entry* entry = At(taken.offset);
  return Settle(entry, Crc32cCopy(to, entry->payload(), taken.bytes));
}

Status Ring::Verify(const Taken& taken) {
  Entry* entry = At(taken.offset);
  return Settle(entry, Crc32c(entry->payload(), taken.bytes));
}

const uint8_t* Ring::Payload(const Taken& taken) const { return At(taken.offset)->payload(); }

bool Ring::Ack(const Taken& taken) {
  Entry* entry = At(taken.offset);
  // Not needed while a handle is used as it should be: guards against acknowledging what was given back.
  if (entry->sequence != taken.sequence || entry->owner_id.load(std::memory_order_relaxed) != id_) return false;
  uint32_t state = kTaken;
  // From this exchange on the record is never delivered again.
  if (!entry->state.compare_exchange_strong(state, kDone, std::memory_order_acq_rel)) return false;
  Add(header_->acked);
  header_->space.Notify();
  return true;
}

bool Ring::Return(const Taken& taken) {
  bool offered = false;
  {
    LockGuard guard(header_->lock, self_, kLockPatience);
    if (Enter(guard) != Status::kOk) return false;
    Entry* entry = At(taken.offset);
    if (entry->sequence == taken.sequence && entry->owner_id.load(std::memory_order_relaxed) == id_) {
      offered = Offer(entry, taken.offset) == Status::kOk;
    }
  }
  if (offered) header_->data.Notify();
  return offered;
}

void Ring::ReturnAll() {
  bool offered = false;
  {
    LockGuard guard(header_->lock, self_, kLockPatience);
    // Without the lock the records come back when this process ends.
    if (Enter(guard) != Status::kOk) return;
    const uint64_t tail = header_->tail.load(std::memory_order_relaxed);
    for (uint64_t offset = header_->head.load(std::memory_order_relaxed); offset < tail;) {
      Entry* entry = Checked(offset, tail);
      if (entry == nullptr) break;
      if (entry->state.load(std::memory_order_acquire) == kTaken &&
          entry->owner_id.load(std::memory_order_relaxed) == id_) {
        offered |= Offer(entry, offset) == Status::kOk;
      }
      offset += entry->span;
    }
  }
  if (offered) header_->data.Notify();
}

void Ring::Close() {
  header_->closed.store(1, std::memory_order_release);
  header_->data.Notify();
  header_->space.Notify();
}

void Ring::Cancel() {
  cancelled_.store(true);
  header_->data.Notify();
  header_->space.Notify();
}

Status Ring::Reclaim() {
  LockGuard guard(header_->lock, self_, kLockPatience);
  const Status status = Enter(guard);
  return status == Status::kOk ? Sweep() : status;
}

Status Ring::Stats(RingStats* stats) {
  LockGuard guard(header_->lock, self_, kLockPatience);
  Status status = Enter(guard);
  if (status == Status::kOk) status = SweepIfOlder(kSweepIdle);
  if (status != Status::kOk) return status;
  AdvanceHead();
  *stats = {};
  const uint64_t head = header_->head.load(), tail = header_->tail.load();
  for (uint64_t offset = head; offset < tail;) {
    Entry* entry = Checked(offset, tail);
    if (entry == nullptr) return Status::kDamaged;
    const uint32_t state = entry->state.load(std::memory_order_acquire);
    stats->pending += state == kCommitted;
    stats->taken += state == kTaken;
    stats->reserved += state == kReserved;
    offset += entry->span;
  }
  stats->capacity = header_->capacity;
  stats->used = tail - head;
  stats->records = header_->records.load();
  stats->bytes = header_->bytes.load();
  stats->acked = header_->acked.load();
  stats->push_waits = header_->push_waits.load();
  stats->pop_waits = header_->pop_waits.load();
  stats->reclaimed = header_->reclaimed.load();
  stats->redelivered = header_->redelivered.load();
  stats->corrupt = header_->corrupt.load();
  stats->recoveries = header_->recoveries.load();
  stats->closed = header_->closed.load() != 0;
  return Status::kOk;
}

}  // namespace agentrl::shm
