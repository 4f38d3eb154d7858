// The ring in one process and with a few forked ones: order, wrap-around, limits, time-outs, closing, damage, fairness,
// stale segments. Threads share a handle here, which is what thread sanitizer can judge.
#include "../ring.h"

#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>

#include "../lock.h"
#include "check.h"

using namespace agentrl::shm;

namespace {

constexpr int64_t kMillisecond = 1'000'000;

std::unique_ptr<Ring> MustCreate(const std::string& name, size_t capacity) {
  Error error;
  auto ring = Ring::Create(name, capacity, &error);
  if (ring == nullptr) fprintf(stderr, "%s: %s\n", error.what.c_str(), error.got.c_str());
  CHECK(ring != nullptr);
  return ring;
}

std::unique_ptr<Ring> MustOpen(const std::string& name) {
  Error error;
  auto ring = Ring::Open(name, &error);
  if (ring == nullptr) fprintf(stderr, "%s: %s\n", error.what.c_str(), error.got.c_str());
  CHECK(ring != nullptr);
  return ring;
}

std::string Text(size_t bytes, uint64_t seed) {
  std::string text(bytes, 0);
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(Mix(seed * 1'000'003 + i));
  return text;
}

Status Pop(Ring& ring, std::string* text, Taken* taken) {
  const Status status = ring.TryTake(taken);
  if (status != Status::kOk) return status;
  text->resize(taken->bytes);
  return ring.Read(*taken, text->data());
}

void ExpectPop(Ring& ring, const std::string& expected) {
  Taken taken;
  std::string text;
  CHECK_EQ(static_cast<int>(Pop(ring, &text, &taken)), static_cast<int>(Status::kOk));
  CHECK(text == expected);
  CHECK(ring.Ack(taken));
}

void InChild(const std::function<void()>& body) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    body();
    kill(getpid(), SIGKILL);
  }
  int status;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

void OrderAndWrapAround() {
  const std::string name = TestName("wrap");
  auto ring = MustCreate(name, 4096);
  Taken none;
  CHECK(ring->TryTake(&none) == Status::kAgain);
  // Sizes that leave every kind of gap at the end of the buffer.
  uint64_t pushed = 0, popped = 0;
  Random random{7};
  std::vector<size_t> sizes;
  for (int step = 0; step < 5000; ++step) {
    if (random.Below(2) == 0) {
      const size_t bytes = random.Below(1025);
      const Status status = ring->TryPush(Text(bytes, pushed).data(), bytes);
      CHECK(status == Status::kOk || status == Status::kAgain);
      if (status == Status::kOk) {
        sizes.push_back(bytes);
        ++pushed;
      } else {
        CHECK(popped < pushed);
      }
    } else if (popped < pushed) {
      ExpectPop(*ring, Text(sizes[popped], popped));
      ++popped;
    }
  }
  while (popped < pushed) {
    ExpectPop(*ring, Text(sizes[popped], popped));
    ++popped;
  }
  CHECK(pushed > 1000);
  RingStats stats;
  CHECK(ring->Stats(&stats) == Status::kOk);
  CHECK_EQ(stats.records, pushed);
  CHECK_EQ(stats.acked, pushed);
  CHECK_EQ(stats.used, 0u);
  CHECK_EQ(stats.pending + stats.taken + stats.reserved, 0u);
  // The largest record fits wherever the ring stands.
  for (size_t shift = 0; shift < 4096; shift += 64) {
    CHECK(ring->TryPush(Text(1, 1).data(), 1) == Status::kOk);
    ExpectPop(*ring, Text(1, 1));
    CHECK(ring->TryPush(Text(1024, shift).data(), 1024) == Status::kOk);
    ExpectPop(*ring, Text(1024, shift));
  }
  CHECK(ring->TryPush(Text(1025, 1).data(), 1025) == Status::kTooLarge);
  Unlink(name);
}

void AckAndReturn() {
  const std::string name = TestName("return");
  auto ring = MustCreate(name, 4096);
  auto other = MustOpen(name);
  for (int i = 0; i < 3; ++i) CHECK(ring->TryPush(Text(10, i).data(), 10) == Status::kOk);
  Taken first, second;
  CHECK(other->TryTake(&first) == Status::kOk);
  CHECK(ring->TryTake(&second) == Status::kOk);
  CHECK_EQ(first.deliveries, 1u);
  CHECK(!ring->Ack(first));  // another handle's
  CHECK(other->Return(first));
  CHECK(!other->Return(first));
  CHECK(!other->Ack(first));
  // Given back, it comes first again.
  Taken again;
  CHECK(ring->TryTake(&again) == Status::kOk);
  CHECK_EQ(again.sequence, first.sequence);
  CHECK_EQ(again.deliveries, 2u);
  CHECK(ring->Ack(again));
  CHECK(!ring->Ack(again));
  CHECK(ring->Ack(second));
  // A handle that goes gives back what it had.
  CHECK(other->TryTake(&first) == Status::kOk);
  other.reset();
  ExpectPop(*ring, Text(10, 2));
  Unlink(name);
}

void TimeoutsAndClosing() {
  const std::string name = TestName("close");
  auto ring = MustCreate(name, 4096);
  Taken taken;
  int64_t start = NowNanos();
  CHECK(ring->Take(&taken, 30 * kMillisecond) == Status::kTimeout);
  CHECK(NowNanos() - start >= 30 * kMillisecond);
  const std::string big = Text(1024, 1);
  while (ring->TryPush(big.data(), big.size()) == Status::kOk) continue;
  start = NowNanos();
  CHECK(ring->Push(big.data(), big.size(), 30 * kMillisecond) == Status::kTimeout);
  CHECK(NowNanos() - start >= 30 * kMillisecond);
  // A blocked push goes on when space comes, a blocked take when a record comes.
  std::thread pusher([&] { CHECK(ring->Push(big.data(), big.size(), 5000 * kMillisecond) == Status::kOk); });
  std::thread closer;
  ExpectPop(*ring, big);
  pusher.join();
  // Closing: blocked producers are refused, what is left is delivered, then kClosed.
  std::thread blocked([&] { CHECK(ring->Push(big.data(), big.size(), 5000 * kMillisecond) == Status::kClosed); });
  ring->Close();
  blocked.join();
  CHECK(ring->TryPush("x", 1) == Status::kClosed);
  int left = 0;
  while (ring->Take(&taken, 1000 * kMillisecond) == Status::kOk) {
    CHECK(ring->Ack(taken));
    ++left;
  }
  CHECK(left >= 3);
  CHECK(ring->Take(&taken, 1000 * kMillisecond) == Status::kClosed);
  Unlink(name);

  auto idle = MustCreate(name, 4096);
  std::thread waiter([&] {
    Taken record;
    CHECK(idle->Take(&record, 60'000 * kMillisecond) == Status::kClosed);
  });
  idle->Close();
  waiter.join();
  std::thread cancelled([&] { CHECK(idle->WaitSpace(1, 1) != Status::kTimeout); });
  cancelled.join();
  idle->Cancel();
  CHECK(idle->WaitData(60'000 * kMillisecond) == Status::kCancelled);
  Unlink(name);
}

void Corruption() {
  const std::string name = TestName("corrupt");
  auto ring = MustCreate(name, 4096);
  const std::string text = Text(500, 1);
  CHECK(ring->TryPush(text.data(), text.size()) == Status::kOk);
  CHECK(ring->TryPush(text.data(), text.size()) == Status::kOk);
  ring->buffer()[64 + 123] ^= 4;
  Taken taken;
  std::string got;
  CHECK(Pop(*ring, &got, &taken) == Status::kCorrupt);
  CHECK(!ring->Ack(taken));
  ExpectPop(*ring, text);
  RingStats stats;
  CHECK(ring->Stats(&stats) == Status::kOk);
  CHECK_EQ(stats.corrupt, 1u);
  CHECK_EQ(stats.used, 0u);
  // A header that makes no sense stops the ring; nothing walks into it.
  auto broken = MustCreate(TestName("broken"), 4096);
  CHECK(broken->TryPush(text.data(), text.size()) == Status::kOk);
  memset(broken->buffer() + 8, 0x5a, 24);
  CHECK(broken->TryTake(&taken) == Status::kDamaged);
  CHECK(broken->Stats(&stats) == Status::kDamaged);
  Unlink(TestName("broken"));
  Unlink(name);
}

void DeadOwners() {
  const std::string name = TestName("dead");
  auto ring = MustCreate(name, 1 << 20);
  for (int i = 0; i < 4; ++i) CHECK(ring->TryPush(Text(100, i).data(), 100) == Status::kOk);
  InChild([&] {
    auto mine = MustOpen(name);
    Taken taken;
    CHECK(mine->TryTake(&taken) == Status::kOk);
    CHECK(mine->Ack(taken));
    CHECK(mine->TryTake(&taken) == Status::kOk);
  });
  CHECK(ring->Reclaim() == Status::kOk);
  Taken taken;
  CHECK(ring->TryTake(&taken) == Status::kOk);
  CHECK_EQ(taken.sequence, 2u);
  CHECK_EQ(taken.deliveries, 2u);
  CHECK(ring->Ack(taken));
  ExpectPop(*ring, Text(100, 2));
  ExpectPop(*ring, Text(100, 3));

  // Without a call to Reclaim: a waiter finds the orphan by itself.
  CHECK(ring->TryPush("orphan", 6) == Status::kOk);
  InChild([&] {
    auto mine = MustOpen(name);
    Taken record;
    CHECK(mine->TryTake(&record) == Status::kOk);
  });
  CHECK(ring->Take(&taken, 10'000 * kMillisecond) == Status::kOk);
  CHECK(ring->Ack(taken));
  RingStats stats;
  CHECK(ring->Stats(&stats) == Status::kOk);
  CHECK_EQ(stats.redelivered, 2u);
  CHECK_EQ(stats.used, 0u);
  Unlink(name);
}

void Processes() {
  const ProcessToken self = SelfToken();
  CHECK(IsAlive(self));
  CHECK_EQ(PidOf(self), getpid());
  // The same process id with another start time is another process: that one is dead.
  CHECK(!IsAlive(self ^ 1));
  CHECK(!IsAlive(0));
  CHECK(IsAlive(self & ~((ProcessToken{1} << 42) - 1)));  // start time unknown
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const ProcessToken mine = SelfToken();
    CHECK(write(pipes[1], &mine, sizeof mine) == sizeof mine);
    pause();
  }
  ProcessToken token;
  CHECK(read(pipes[0], &token, sizeof token) == sizeof token);
  CHECK(IsAlive(token));
  kill(child, SIGSTOP);
  CHECK(IsAlive(token));
  kill(child, SIGKILL);
  // Dead from the moment it is a zombie, before anyone has waited for it.
  siginfo_t info;
  CHECK(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(!IsAlive(token));
  waitpid(child, nullptr, 0);
  CHECK(!IsAlive(token));
}

// A holder that is only stopped keeps its lock, and whoever wants it gives up in time; a dead one's is taken over.
void Locks() {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  auto* lock = new (page) RobustLock{};
  const ProcessToken self = SelfToken();
  const pid_t child = fork();
  if (child == 0) {
    lock->Acquire(SelfToken(), kMillisecond);
    raise(SIGSTOP);
    _exit(0);
  }
  int status;
  CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
  CHECK(WIFSTOPPED(status));
  const int64_t start = NowNanos();
  CHECK(lock->Acquire(self, 30 * kMillisecond) == Locked::kNo);
  CHECK(NowNanos() - start >= 30 * kMillisecond);
  CHECK_EQ(PidOf(lock->owner.load()), child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(lock->Acquire(self, 10'000 * kMillisecond) == Locked::kTakenOver);
  lock->Release();
  CHECK(lock->Acquire(self, 0) == Locked::kYes);
  // Others of the same process wait for it as well.
  CHECK(lock->Acquire(self, kMillisecond) == Locked::kNo);
  lock->Release();
  munmap(page, 4096);
}

// A large record gets its place although small ones would take every gap.
void Fairness() {
  const std::string name = TestName("fair");
  auto ring = MustCreate(name, 64 << 10);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Ring>> handles;
  for (int i = 0; i < 3; ++i) handles.push_back(MustOpen(name));
  for (auto& handle : handles) {
    threads.emplace_back([&] {
      const std::string small = Text(64, 1);
      while (!stop) handle->Push(small.data(), small.size(), 100 * kMillisecond);
    });
  }
  std::thread consumer([&] {
    Taken taken;
    while (!stop) {
      if (ring->Take(&taken, 10 * kMillisecond) == Status::kOk) CHECK(ring->Ack(taken));
    }
  });
  auto large = MustOpen(name);
  const std::string text = Text(16 << 10, 2);
  for (int i = 0; i < 3; ++i) CHECK(large->Push(text.data(), text.size(), 20'000 * kMillisecond) == Status::kOk);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  consumer.join();
  Unlink(name);
}

void Threads() {
  const std::string name = TestName("threads");
  auto ring = MustCreate(name, 32 << 10);
  constexpr int kEach = 3000;
  std::atomic<uint64_t> sum{0};
  std::atomic<int> count{0};
  std::vector<std::thread> producers, consumers;
  for (int p = 0; p < 3; ++p) {
    producers.emplace_back([&, p] {
      Random random{static_cast<uint64_t>(p)};
      for (int i = 0; i < kEach; ++i) {
        std::vector<uint64_t> words(1 + random.Below(200), static_cast<uint64_t>(p * kEach + i));
        CHECK(ring->Push(words.data(), words.size() * 8, 20'000 * kMillisecond) == Status::kOk);
      }
    });
  }
  for (int c = 0; c < 3; ++c) {
    consumers.emplace_back([&] {
      Taken taken;
      std::vector<uint64_t> words;
      for (;;) {
        const Status status = ring->Take(&taken, 20'000 * kMillisecond);
        if (status == Status::kClosed) return;
        CHECK(status == Status::kOk);
        words.resize(taken.bytes / 8);
        CHECK(ring->Read(taken, words.data()) == Status::kOk);
        for (const uint64_t word : words) CHECK(word == words[0]);
        CHECK(ring->Ack(taken));
        sum += words[0];
        ++count;
      }
    });
  }
  for (std::thread& thread : producers) thread.join();
  ring->Close();
  for (std::thread& thread : consumers) thread.join();
  const uint64_t n = 3 * kEach;
  CHECK_EQ(count.load(), static_cast<int>(n));
  CHECK_EQ(sum.load(), n * (n - 1) / 2);
  Unlink(name);
}

void Segments() {
  const std::string name = TestName("stale");
  Error error;
  CHECK(Ring::Open(name, &error) == nullptr);
  CHECK(!error.what.empty());
  InChild([&] { MustCreate(name, 4096)->TryPush("old", 3); });
  // Its creator is dead: replaced, and empty.
  auto ring = MustCreate(name, 8192);
  CHECK_EQ(CreatorOf(name), getpid());
  Taken taken;
  CHECK(ring->TryTake(&taken) == Status::kAgain);
  error = {};
  CHECK(Ring::Create(name, 4096, &error) == nullptr);
  CHECK(error.got.find(std::to_string(getpid())) != std::string::npos);
  CHECK(!UnlinkStale(name));
  CHECK(Unlink(name));
  InChild([&] { MustCreate(name, 4096); });
  CHECK(UnlinkStale(name));
  CHECK(!Unlink(name));
  // More than there is.
  const uint64_t free = FreeSharedMemory();
  if (free > 0) {
    error = {};
    CHECK(Ring::Create(name, free + (uint64_t{1} << 30), &error) == nullptr);
    CHECK(error.what == "not enough shared memory");
    CHECK(!Unlink(name));
  }
}

}  // namespace

int main() {
  OrderAndWrapAround();
  AckAndReturn();
  TimeoutsAndClosing();
  Corruption();
  Processes();
  Locks();
  DeadOwners();
  Segments();
  Threads();
  Fairness();
  printf("ring: all passed\n");
}
