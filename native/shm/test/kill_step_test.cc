// Killed at every point that others could notice: a child is single-stepped (ptrace) through one operation, which shows
// after which instructions the shared memory has changed; then one child after the other repeats it and is killed right
// after each of these. (Where it is killed between two stores makes no difference to anyone.) After each death the ring
// or board must behave as if the operation had either happened or not, and the survivor goes on at once. Random kills
// (ring_stress_test) rarely hit the few stores under the lock; this hits each of them.
#if !defined(__linux__)
#include <cstdio>
int main() { printf("kill_step: skipped: needs Linux's ptrace\n"); }
#else
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "../board.h"
#include "../ring.h"
#include "check.h"

using namespace agentrl::shm;

namespace {

// Where the child is in its operation, as it says itself.
enum Phase : int { kBefore = 0, kRunning = 1, kAcking = 2, kFinished = 3 };
std::atomic<int>* phase;
constexpr int kNoPtrace = 77;

// To be called by the child where its operation begins: stepping starts here.
void Begin() {
  *phase = kRunning;
  raise(SIGSTOP);
}

void WaitForStop(pid_t child) {
  int status;
  CHECK_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoPtrace) {
    printf("kill_step: skipped: ptrace is not allowed here\n");
    exit(0);
  }
  CHECK(WIFSTOPPED(status));
}

pid_t Start(const std::function<void()>& body) {
  *phase = kBefore;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNoPtrace);
    body();
    raise(SIGSTOP);
    _exit(0);
  }
  WaitForStop(child);
  return child;
}

// False: the operation is over.
bool Step(pid_t child) {
  CHECK(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0);
  WaitForStop(child);
  return *phase != kFinished;
}

void Kill(pid_t child) {
  CHECK(kill(child, SIGKILL) == 0);
  CHECK_EQ(waitpid(child, nullptr, 0), child);
}

std::unique_ptr<Ring> Open(const std::string& name) {
  Error error;
  auto ring = Ring::Open(name, &error);
  CHECK(ring != nullptr);
  return ring;
}

std::string Drain(Ring& ring) {
  std::string all;
  Taken taken;
  while (ring.TryTake(&taken) == Status::kOk) {
    std::string text(taken.bytes, 0);
    CHECK(ring.Read(taken, text.data()) == Status::kOk);
    CHECK(ring.Ack(taken));
    all += text[0];
    for (const char letter : text) CHECK(letter == text[0]);
  }
  RingStats stats;
  CHECK(ring.Stats(&stats) == Status::kOk);
  CHECK_EQ(stats.used, 0u);
  return all;
}

void MustPush(Ring& ring, char letter, size_t bytes = 64) {
  const std::string text(bytes, letter);
  CHECK(ring.TryPush(text.data(), text.size()) == Status::kOk);
}

// One round for each point of death, and one in which the operation ends before the child is killed.
void ForEachDeath(const char* what, const Segment& memory, const std::function<void()>& before,
                  const std::function<void()>& operation, const std::function<std::string(int)>& after) {
  std::vector<long> deaths = {0};
  before();
  const pid_t scout = Start(operation);
  std::vector<uint8_t> last(memory.data(), memory.data() + memory.bytes());
  long steps = 0;
  while (Step(scout)) {
    ++steps;
    if (memcmp(last.data(), memory.data(), last.size()) == 0) continue;
    last.assign(memory.data(), memory.data() + memory.bytes());
    deaths.push_back(steps);
  }
  Kill(scout);
  std::map<std::string, int> outcomes;
  ++outcomes[after(kFinished)];
  for (const long death : deaths) {
    before();
    const pid_t child = Start(operation);
    for (long step = 0; step < death && Step(child); ++step) continue;
    Kill(child);
    ++outcomes[after(phase->load())];
  }
  printf("kill_step: %s: %ld instructions, killed at %zu;", what, steps, deaths.size());
  for (const auto& [outcome, count] : outcomes) printf(" %s x%d", outcome.c_str(), count);
  printf("\n");
}

void RingOperations() {
  const std::string name = TestName("step");
  Error error;
  auto ring = Ring::Create(name, 4096, &error);
  CHECK(ring != nullptr);

  const auto memory = ring->segment();
  // The rounds go round the buffer, so that some pushes wrap at its end.
  ForEachDeath(
      "push", *memory, [&] { MustPush(*ring, 'a', 1); },
      [&] {
        auto mine = Open(name);
        const std::string text(200, 'b');
        Begin();
        CHECK(mine->TryPush(text.data(), text.size()) == Status::kOk);
        *phase = kFinished;
      },
      [&](int reached) {
        MustPush(*ring, 'c');
        CHECK(ring->Reclaim() == Status::kOk);
        const std::string got = Drain(*ring);
        CHECK(got == "abc" || (got == "ac" && reached != kFinished));
        return got;
      });

  ForEachDeath(
      "take and ack", *memory,
      [&] {
        MustPush(*ring, 'a');
        MustPush(*ring, 'b', 300);
      },
      [&] {
        auto mine = Open(name);
        char text[64];
        Taken taken;
        Begin();
        CHECK(mine->TryTake(&taken) == Status::kOk);
        CHECK(mine->Read(taken, text) == Status::kOk);
        *phase = kAcking;
        CHECK(mine->Ack(taken));
        *phase = kFinished;
      },
      [&](int reached) {
        MustPush(*ring, 'c');
        CHECK(ring->Reclaim() == Status::kOk);
        const std::string got = Drain(*ring);
        CHECK((got == "abc" && reached != kFinished) || (got == "bc" && reached >= kAcking));
        return got;
      });

  ForEachDeath(
      "give back", *memory,
      [&] {
        MustPush(*ring, 'a');
        MustPush(*ring, 'b');
      },
      [&] {
        auto mine = Open(name);
        Taken first, second;
        CHECK(mine->TryTake(&first) == Status::kOk);
        CHECK(mine->TryTake(&second) == Status::kOk);
        Begin();
        mine->ReturnAll();
        *phase = kFinished;
      },
      [&](int) {
        CHECK(ring->Reclaim() == Status::kOk);
        const std::string got = Drain(*ring);
        CHECK(got == "ab");
        return got;
      });

  // The sweep itself: it moves on a record that one dead process had taken and a reservation that another had made, and
  // frees space, while a third kills it.
  ForEachDeath(
      "sweep", *memory,
      [&] {
        MustPush(*ring, 'a');
        MustPush(*ring, 'b');
        MustPush(*ring, 'c');
        const pid_t child = fork();
        if (child == 0) {
          auto mine = Open(name);
          Taken taken;
          CHECK(mine->TryTake(&taken) == Status::kOk && mine->Ack(taken));
          CHECK(mine->TryTake(&taken) == Status::kOk);
          kill(getpid(), SIGKILL);
        }
        waitpid(child, nullptr, 0);
      },
      [&] {
        auto mine = Open(name);
        RingStats stats;
        Begin();
        CHECK(mine->Reclaim() == Status::kOk);
        CHECK(mine->Stats(&stats) == Status::kOk);
        *phase = kFinished;
      },
      [&](int) {
        CHECK(ring->Reclaim() == Status::kOk);
        const std::string got = Drain(*ring);
        CHECK(got == "bc");
        return got;
      });
  RingStats stats;
  CHECK(ring->Stats(&stats) == Status::kOk);
  printf("kill_step: lock taken over %llu times, %llu reservations dropped, %llu records redelivered\n",
         static_cast<unsigned long long>(stats.recoveries), static_cast<unsigned long long>(stats.reclaimed),
         static_cast<unsigned long long>(stats.redelivered));
  CHECK(stats.recoveries > 20);
  Unlink(name);
}

constexpr size_t kBytes = 256;

bool Publish(Board& board, int64_t version) {
  Error error;
  const int slot = board.BeginWrite(&error);
  if (slot < 0) return false;
  memset(board.SlotData(static_cast<size_t>(slot)), static_cast<int>(version & 0xff), kBytes);
  return board.Publish(version, static_cast<uint64_t>(version), &error);
}

void CheckLatest(Board& board, int64_t expected) {
  Hold hold;
  Error error;
  CHECK(board.Acquire(kNoVersion, &hold, &error));
  CHECK_EQ(hold.version, expected);
  CHECK_EQ(hold.checksum, static_cast<uint64_t>(expected));
  for (size_t i = 0; i < kBytes; ++i) CHECK(board.SlotData(hold.slot)[i] == static_cast<uint8_t>(expected));
  CHECK(board.Release(hold));
}

void BoardOperations() {
  const std::string name = TestName("step-board");
  Error error;
  auto board = Board::Create(name, 2, kBytes, &error);
  CHECK(board != nullptr);
  int64_t version = 1;
  CHECK(Publish(*board, version));

  bool publishes = false;
  const auto checked = [&](int reached) -> std::string {
    const bool published = board->Latest() == version + 1;
    CHECK(published || (!(reached == kFinished && publishes) && board->Latest() == version));
    if (published) ++version;
    CheckLatest(*board, version);
    // Both slots are usable again: nothing is left of the write that died.
    CHECK(Publish(*board, ++version));
    CheckLatest(*board, version);
    return published ? "new" : "old";
  };
  ForEachDeath(
      "begin to write", *board->segment(), [] {},
      [&] {
        Error ignored;
        auto mine = Board::Open(name, &ignored);
        Begin();
        CHECK(mine->BeginWrite(&ignored) >= 0);
        *phase = kFinished;
      },
      checked);
  publishes = true;
  ForEachDeath(
      "publish", *board->segment(), [] {},
      [&] {
        Error ignored;
        auto mine = Board::Open(name, &ignored);
        const int slot = mine->BeginWrite(&ignored);
        CHECK(slot >= 0);
        memset(mine->SlotData(static_cast<size_t>(slot)), static_cast<int>((version + 1) & 0xff), kBytes);
        Begin();
        CHECK(mine->Publish(version + 1, static_cast<uint64_t>(version + 1), &ignored));
        *phase = kFinished;
      },
      checked);

  ForEachDeath(
      "acquire and release", *board->segment(), [&] { CHECK(Publish(*board, ++version)); },
      [&] {
        Error ignored;
        auto mine = Board::Open(name, &ignored);
        Hold hold;
        Begin();
        CHECK(mine->Acquire(kNoVersion, &hold, &ignored));
        CHECK(mine->Release(hold));
        *phase = kFinished;
      },
      [&](int) {
        // Two slots: this works only if the dead reader's hold is gone.
        CHECK(Publish(*board, ++version));
        CHECK(Publish(*board, ++version));
        CheckLatest(*board, version);
        return "reclaimed";
      });
  Unlink(name);
}

}  // namespace

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

int main() {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  if (kSanitized) {
    printf("kill_step: skipped: the sanitizer's own instructions would be stepped through\n");
    return 0;
  }
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  phase = new (page) std::atomic<int>(kBefore);
  RingOperations();
  BoardOperations();
}
#endif
