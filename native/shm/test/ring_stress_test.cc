// Producers and consumers in processes of their own, killed with SIGKILL at random instants, a thousand times. Every
// worker logs to memory that outlives it what it is about to do and what was acknowledged; at the end each acknowledged
// push must have been acknowledged by exactly one consumer, its content untouched.
//
//   ring_stress_test [--kills N] [--producers N] [--consumers N] [--capacity BYTES] [--gap MICROSECONDS] [--seed N]
//
// The one case that no log can decide is a consumer killed between its ack and the log entry behind it: that record may
// have been delivered for the last time or not. Such records are counted (at most one a kill) and must then be
// acknowledged at most once more.
#include <algorithm>
#include <cstring>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "../ring.h"
#include "check.h"

using namespace agentrl::shm;

namespace {

constexpr uint32_t kMaxPushes = 1 << 14;  // by one process
constexpr size_t kMinRecord = 64, kMaxRecord = 1 << 20;
constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kNothing = ~uint64_t{0};

struct Options {
  int kills = 1000, producers = 4, consumers = 4, gap = 10'000;
  size_t capacity = 8 << 20;
  uint64_t seed = 1;
};

// A process's log, in shared memory.
struct Log {
  std::atomic<uint32_t> pushing;  // its pushes are numbered from 1: the last one begun
  std::atomic<uint32_t> pushed;   // and the last one that returned
  std::atomic<uint64_t> acking;   // record whose ack has begun and is not yet logged, or kNothing
  std::atomic<uint32_t> received;
};

struct Shared {
  std::atomic<bool> stop;
  std::atomic<uint64_t> received;
  std::atomic<uint64_t> violations;
};

struct Memory {
  Shared* shared;
  Log* logs;
  // How often record (producer, number) was acknowledged by a consumer.
  std::atomic<uint8_t>* acks;
  std::atomic<uint8_t>& Acks(uint64_t record) const { return acks[record]; }
};

uint64_t RecordId(uint64_t producer, uint32_t number) { return producer * kMaxPushes + number; }

void* Allocate(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

// The first words say which record it is; all others follow from these and their place.
size_t Fill(std::vector<uint64_t>& words, uint64_t producer, uint32_t number, Random& random) {
  // Log-uniform sizes in whole words: small and large records are equally frequent.
  const uint64_t base = kMinRecord << random.Below(14);
  const size_t count = std::min<uint64_t>(base + random.Below(base), kMaxRecord) / 8;
  words.resize(count);
  words[0] = producer;
  words[1] = number;
  words[2] = count;
  for (size_t i = 3; i < count; ++i) words[i] = (producer << 32 | number) * 0x9e3779b97f4a7c15 + i;
  return count * 8;
}

bool IsWhole(const std::vector<uint64_t>& words, size_t bytes) {
  if (bytes < kMinRecord || bytes % 8 != 0 || words[2] != bytes / 8) return false;
  for (size_t i = 3; i < bytes / 8; ++i) {
    if (words[i] != (words[0] << 32 | words[1]) * 0x9e3779b97f4a7c15 + i) return false;
  }
  return true;
}

#define VIOLATION(...)                    \
  do {                                    \
    fprintf(stderr, "VIOLATION: ");       \
    fprintf(stderr, __VA_ARGS__);         \
    fprintf(stderr, "\n");                \
    memory.shared->violations.fetch_add(1); \
  } while (0)

std::unique_ptr<Ring> Open(const std::string& name) {
  Error error;
  auto ring = Ring::Open(name, &error);
  if (ring == nullptr) fprintf(stderr, "%s: %s\n", error.what.c_str(), error.got.c_str());
  CHECK(ring != nullptr);
  return ring;
}

void Produce(const std::string& name, const Memory& memory, uint64_t self, uint64_t seed) {
  auto ring = Open(name);
  Log& log = memory.logs[self];
  Random random{seed};
  std::vector<uint64_t> words;
  for (uint32_t number = 1; number < kMaxPushes && !memory.shared->stop; ++number) {
    const size_t bytes = Fill(words, self, number, random);
    log.pushing = number;
    const Status status = ring->Push(words.data(), bytes, 60 * kSecond);
    if (status != Status::kOk) {
      VIOLATION("push ended with status %d", static_cast<int>(status));
      return;
    }
    log.pushed = number;
  }
}

void Consume(const std::string& name, const Memory& memory, uint64_t self) {
  auto ring = Open(name);
  Log& log = memory.logs[self];
  std::vector<uint64_t> words(kMaxRecord / 8);
  for (;;) {
    Taken taken;
    Status status = ring->Take(&taken, 60 * kSecond);
    if (status == Status::kClosed) return;
    if (status == Status::kOk && taken.bytes <= kMaxRecord) status = ring->Read(taken, words.data());
    if (status != Status::kOk) {
      VIOLATION("take ended with status %d", static_cast<int>(status));
      return;
    }
    if (!IsWhole(words, taken.bytes)) {
      VIOLATION("a torn record of %u bytes", taken.bytes);
      return;
    }
    const uint64_t record = RecordId(words[0], static_cast<uint32_t>(words[1]));
    if (memory.Acks(record) != 0) VIOLATION("a repeated record: %llu", static_cast<unsigned long long>(record));
    log.acking = record;
    if (!ring->Ack(taken)) VIOLATION("an ack was refused");
    memory.Acks(record).fetch_add(1);
    log.acking = kNothing;
    log.received.fetch_add(1);
    memory.shared->received.fetch_add(1);
  }
}

struct Worker {
  pid_t pid;
  bool producer;
  uint64_t log;
};

int Run(const Options& options) {
  const std::string name = TestName("stress");
  Error error;
  auto ring = Ring::Create(name, options.capacity, &error);
  if (ring == nullptr) {
    fprintf(stderr, "%s: %s\n", error.what.c_str(), error.got.c_str());
    return 1;
  }
  const int workers = options.producers + options.consumers;
  const size_t processes = static_cast<size_t>(options.kills + workers) * 4;
  Memory memory;
  memory.shared = static_cast<Shared*>(Allocate(sizeof(Shared)));
  memory.logs = static_cast<Log*>(Allocate(processes * sizeof(Log)));
  memory.acks = static_cast<std::atomic<uint8_t>*>(Allocate(processes * kMaxPushes));
  Random random{options.seed};
  uint64_t started = 0;

  const auto start = [&](bool producer) {
    const uint64_t self = started++;
    CHECK(self < processes);
    memory.logs[self].acking = kNothing;
    const uint64_t seed = random.Next();
    const pid_t parent = getpid();
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
#if defined(__linux__)
      prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
      if (getppid() != parent) _exit(1);
      if (producer) {
        Produce(name, memory, self, seed);
      } else {
        Consume(name, memory, self);
      }
      _exit(0);
    }
    return Worker{pid, producer, self};
  };

  std::vector<Worker> alive;
  for (int i = 0; i < options.producers; ++i) alive.push_back(start(true));
  for (int i = 0; i < options.consumers; ++i) alive.push_back(start(false));
  const int64_t begin = NowNanos();
  std::vector<pid_t> zombies;
  int kills = 0;
  while (kills < options.kills && memory.shared->violations == 0) {
    usleep(static_cast<useconds_t>(random.Below(static_cast<uint64_t>(options.gap) + 1)));
    Worker& victim = alive[random.Below(alive.size())];
    int status;
    if (waitpid(victim.pid, &status, WNOHANG) == victim.pid) {
      // It ended by itself: a producer that made all its pushes, or a check that failed.
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) VIOLATION("a worker crashed: wait status %d", status);
    } else {
      CHECK(kill(victim.pid, SIGKILL) == 0);
      ++kills;
      // Half of them stay zombies for a while: dead to the ring, although their id still exists.
      zombies.push_back(victim.pid);
      if (random.Below(2) == 0) {
        for (const pid_t pid : zombies) waitpid(pid, &status, 0);
        zombies.clear();
      }
    }
    victim = start(victim.producer);
  }
  for (const pid_t pid : zombies) waitpid(pid, nullptr, 0);

  // The survivors go on.
  const uint64_t before = memory.shared->received;
  const int64_t patience = NowNanos() + 60 * kSecond;
  while (memory.shared->received < before + 50 && memory.shared->violations == 0) {
    if (NowNanos() > patience) {
      VIOLATION("the survivors stand still");
      break;
    }
    usleep(1000);
  }
  memory.shared->stop = true;
  const auto finish = [&](bool producers) {
    for (const Worker& worker : alive) {
      if (worker.producer != producers) continue;
      int status = 0;
      while (waitpid(worker.pid, &status, WNOHANG) == 0) {
        if (NowNanos() > patience + 120 * kSecond) {
          VIOLATION("a surviving %s hangs", producers ? "producer" : "consumer");
          kill(worker.pid, SIGKILL);
          waitpid(worker.pid, nullptr, 0);
          return;
        }
        usleep(500);
      }
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) VIOLATION("a survivor crashed: wait status %d", status);
    }
  };
  finish(true);
  ring->Close();
  finish(false);

  uint64_t pushed = 0, unsure_pushes = 0, in_doubt = 0, acked = 0;
  std::vector<uint64_t> doubtful;
  for (uint64_t i = 0; i < started; ++i) {
    if (memory.logs[i].acking != kNothing) doubtful.push_back(memory.logs[i].acking);
  }
  std::sort(doubtful.begin(), doubtful.end());
  for (uint64_t producer = 0; producer < started; ++producer) {
    const Log& log = memory.logs[producer];
    pushed += log.pushed;
    for (uint32_t number = 1; number < kMaxPushes; ++number) {
      const uint64_t record = RecordId(producer, number);
      const int acks = memory.Acks(record);
      acked += static_cast<uint64_t>(acks);
      const bool doubt = std::binary_search(doubtful.begin(), doubtful.end(), record);
      if (acks > 1) VIOLATION("record %llu acknowledged %d times", static_cast<unsigned long long>(record), acks);
      if (number <= log.pushed && acks == 0) {
        if (doubt) {
          ++in_doubt;
        } else {
          VIOLATION("record %llu was lost", static_cast<unsigned long long>(record));
        }
      }
      if (number > log.pushed && acks == 1) {
        // Killed between the commit and the log entry.
        ++unsure_pushes;
        if (number > log.pushing) VIOLATION("a record nobody pushed");
      }
    }
  }
  RingStats stats{};
  if (ring->Stats(&stats) != Status::kOk) VIOLATION("the ring is damaged");
  if (stats.used != 0) VIOLATION("%llu bytes leaked", static_cast<unsigned long long>(stats.used));
  Unlink(name);
  printf("{\"kills\":%d,\"processes\":%llu,\"pushed\":%llu,\"acked\":%llu,\"ackedAfterKill\":%llu,\"inDoubt\":%llu,"
         "\"redelivered\":%llu,\"reclaimed\":%llu,\"lockRecoveries\":%llu,\"bytes\":%llu,\"violations\":%llu,"
         "\"seconds\":%.2f}\n",
         kills, static_cast<unsigned long long>(started), static_cast<unsigned long long>(pushed),
         static_cast<unsigned long long>(acked), static_cast<unsigned long long>(unsure_pushes),
         static_cast<unsigned long long>(in_doubt), static_cast<unsigned long long>(stats.redelivered),
         static_cast<unsigned long long>(stats.reclaimed), static_cast<unsigned long long>(stats.recoveries),
         static_cast<unsigned long long>(stats.bytes), static_cast<unsigned long long>(memory.shared->violations),
         static_cast<double>(NowNanos() - begin) / 1e9);
  return memory.shared->violations == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    const long long value = atoll(argv[i + 1]);
    if (key == "--kills") {
      options.kills = static_cast<int>(value);
    } else if (key == "--producers") {
      options.producers = static_cast<int>(value);
    } else if (key == "--consumers") {
      options.consumers = static_cast<int>(value);
    } else if (key == "--capacity") {
      options.capacity = static_cast<size_t>(value);
    } else if (key == "--gap") {
      options.gap = static_cast<int>(value);
    } else if (key == "--seed") {
      options.seed = static_cast<uint64_t>(value);
    } else {
      fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
  }
  return Run(options);
}
