// The weight board: eviction order, holds, dead readers and writers, and that no reader ever sees a torn version.
#include "../board.h"

#include <functional>
#include <thread>

#include <sys/wait.h>

#include "../crc32c.h"
#include "check.h"

using namespace agentrl::shm;

namespace {

constexpr size_t kBytes = 40'000;
constexpr int64_t kSecond = 1'000'000'000;

std::unique_ptr<Board> MustCreate(const std::string& name, size_t slots) {
  Error error;
  auto board = Board::Create(name, slots, kBytes, &error);
  CHECK(board != nullptr);
  return board;
}

std::unique_ptr<Board> MustOpen(const std::string& name) {
  Error error;
  auto board = Board::Open(name, &error);
  CHECK(board != nullptr);
  return board;
}

// Each version is filled with its own number.
int Write(Board& board, int64_t version) {
  Error error;
  const int slot = board.BeginWrite(&error);
  if (slot < 0) return slot;
  auto* data = reinterpret_cast<float*>(board.SlotData(static_cast<size_t>(slot)));
  for (size_t i = 0; i < kBytes / 4; ++i) data[i] = static_cast<float>(version);
  CHECK(board.Publish(version, Checksum64(data, kBytes), &error));
  return slot;
}

void CheckWhole(Board& board, const Hold& hold) {
  const auto* data = reinterpret_cast<const float*>(board.SlotData(hold.slot));
  for (size_t i = 0; i < kBytes / 4; ++i) CHECK(data[i] == static_cast<float>(hold.version));
  CHECK(Checksum64(data, kBytes) == hold.checksum);
}

void KillAfter(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    kill(getpid(), SIGKILL);
  }
  int status;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

void EvictionAndHolds() {
  const std::string name = TestName("board");
  auto board = MustCreate(name, 3);
  Error error;
  Hold hold, latest;
  CHECK_EQ(board->Latest(), kNoVersion);
  CHECK(!board->Acquire(kNoVersion, &hold, &error));
  CHECK(error.what.empty());
  CHECK(!board->Publish(1, 0, &error));
  const int first = Write(*board, 10);
  CHECK(reinterpret_cast<uintptr_t>(board->SlotData(static_cast<size_t>(first))) % 4096 == 0);
  Write(*board, 11);
  Write(*board, 12);
  CHECK(board->Acquire(10, &hold, &error));
  CheckWhole(*board, hold);
  // 10 is held and 12 the latest, so 11 goes.
  Write(*board, 13);
  Hold gone;
  CHECK(!board->Acquire(11, &gone, &error));
  CHECK(board->Acquire(kNoVersion, &latest, &error));
  CHECK_EQ(latest.version, 13);
  Hold twelve;
  CHECK(board->Acquire(12, &twelve, &error));
  error = {};
  CHECK_EQ(board->BeginWrite(&error), -1);
  CHECK(error.got.find("version 10 held by process " + std::to_string(getpid())) != std::string::npos);
  CHECK(board->Release(twelve));
  CHECK(!board->Release(twelve));
  // Two holds on one version count twice.
  Hold again;
  CHECK(board->Acquire(10, &again, &error));
  CHECK(board->Release(hold));
  CheckWhole(*board, again);
  Write(*board, 14);
  CheckWhole(*board, again);
  CHECK(board->Release(again));
  error = {};
  CHECK(board->BeginWrite(&error) >= 0);
  CHECK_EQ(board->BeginWrite(&error), -1);
  CHECK(error.what == "a write to the weight board is under way");
  CHECK(board->Abort());
  CHECK(!board->Abort());
  CHECK(board->BeginWrite(&error) >= 0);
  error = {};
  CHECK(!board->Publish(14, 0, &error));
  CHECK(error.expected == "above the latest, 14");
  CHECK(board->Publish(15, 0, &error));
  std::vector<BoardVersion> versions;
  CHECK(board->Versions(&versions, &error));
  CHECK_EQ(versions.back().version, 15);
  Unlink(name);
}

void TheDead() {
  const std::string name = TestName("dead-reader");
  auto board = MustCreate(name, 2);
  Write(*board, 1);
  KillAfter([&] {
    auto mine = MustOpen(name);
    Hold hold;
    Error error;
    CHECK(mine->Acquire(1, &hold, &error));
  });
  Write(*board, 2);
  // The slot of version 1 is needed now, and its holder is dead.
  CHECK(Write(*board, 3) >= 0);
  KillAfter([&] {
    auto mine = MustOpen(name);
    Error error;
    const int slot = mine->BeginWrite(&error);
    CHECK(slot >= 0);
    mine->SlotData(static_cast<size_t>(slot))[0] ^= 1;
  });
  CHECK_EQ(board->Latest(), 3);
  Hold hold;
  Error error;
  CHECK(!board->Acquire(2, &hold, &error));
  CHECK(Write(*board, 4) >= 0);
  CHECK(board->Acquire(kNoVersion, &hold, &error));
  CheckWhole(*board, hold);
  Unlink(name);
}

void Concurrent() {
  const std::string name = TestName("threads");
  auto board = MustCreate(name, 3);
  constexpr int64_t kLast = 400;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      int64_t seen = kNoVersion;
      Error error;
      while (seen < kLast) {
        CHECK(board->WaitFor(seen + 1, 20 * kSecond));
        Hold hold;
        if (!board->Acquire(kNoVersion, &hold, &error)) continue;
        CHECK(hold.version >= seen);
        seen = hold.version;
        CheckWhole(*board, hold);
        CHECK(board->Release(hold));
      }
    });
  }
  for (int64_t version = 1; version <= kLast; ++version) {
    while (Write(*board, version) < 0) std::this_thread::yield();
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(!board->WaitFor(kLast + 1, kSecond / 50));
  Unlink(name);
}

}  // namespace

int main() {
  EvictionAndHolds();
  TheDead();
  Concurrent();
  printf("board: all passed\n");
}
