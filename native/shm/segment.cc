#include "segment.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace agentrl::shm {
namespace {

// All our magics begin with these bytes, so that a foreign file in /dev/shm is never taken for a stale segment of ours.
constexpr uint64_t kFamily = 0x41524c00'00000000;  // "ARL"
constexpr uint64_t kFamilyMask = 0xffffff00'00000000;

struct File {
  int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

std::string Mebibytes(uint64_t bytes) {
  char text[64];
  snprintf(text, sizeof text, "%.1f MiB (%llu bytes)", static_cast<double>(bytes) / 1048576.0,
           static_cast<unsigned long long>(bytes));
  return text;
}

// System errors that a user can act on keep the system's own words.
void Fill(Error* error, const std::string& what, const std::string& name, int code) {
  error->what = what;
  error->got = name + ": " + strerror(code);
  error->hint = "check that shared memory is allowed here and its limits (in a container: --shm-size, --ipc)";
}

void NoSpace(Error* error, uint64_t free, uint64_t needed) {
  error->what = "not enough shared memory";
  error->got = Mebibytes(free) + " free";
  error->expected = Mebibytes(needed);
  error->hint =
      "enlarge /dev/shm (mount -o remount,size=...; in a container: --shm-size), delete stale /dev/shm/agentrl-* files, "
      "or ask for a smaller ring or fewer weight slots";
}

enum class State { kMissing, kAlive, kStale, kForeign };

// Looks at an existing segment. With `remove`, a stale one is unlinked; the file lock keeps two processes that found the
// same dead creator from unlinking each other's new segment.
State Inspect(const std::string& name, bool remove, ProcessToken* creator) {
  File file{shm_open(name.c_str(), O_RDWR, 0)};
  if (file.fd < 0) return errno == ENOENT ? State::kMissing : State::kForeign;
  // Its creator may be between two steps: give it a second to write who it is.
  for (int attempt = 0; attempt < 100; ++attempt) {
    struct stat info;
    if (fstat(file.fd, &info) != 0) return State::kForeign;
    if (static_cast<size_t>(info.st_size) >= sizeof(SegmentHeader)) {
      void* data = mmap(nullptr, sizeof(SegmentHeader), PROT_READ, MAP_SHARED, file.fd, 0);
      if (data == MAP_FAILED) return State::kForeign;
      auto* header = static_cast<SegmentHeader*>(data);
      const uint64_t magic = header->magic.load();
      const uint64_t owner = header->creator.load();
      const uint64_t place = header->pid_namespace;
      munmap(data, sizeof(SegmentHeader));
      if (magic != 0 && (magic & kFamilyMask) != kFamily) return State::kForeign;
      if (owner != 0) {
        if (creator != nullptr) *creator = owner;
        // A process of another namespace cannot be looked up from here: leave its segment alone.
        if (place != PidNamespace() || IsAlive(owner)) return State::kAlive;
        break;
      }
    }
    const timespec nap{0, 10'000'000};
    nanosleep(&nap, nullptr);
  }
  if (remove) {
    flock(file.fd, LOCK_EX);
    struct stat info;
    bool linked = fstat(file.fd, &info) == 0;
#if defined(__linux__)
    // Elsewhere segments are no files, and have no links to count.
    linked = linked && info.st_nlink > 0;
#endif
    if (linked) shm_unlink(name.c_str());
  }
  return State::kStale;
}

// The creator last: whoever sees it sees the rest.
void Sign(SegmentHeader* header) {
  header->pid_namespace = PidNamespace();
  header->creator.store(SelfToken(), std::memory_order_release);
}

// Backs every page, so that no later store can fail. 0 or an errno.
int Reserve(int fd, size_t bytes) {
  while (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
#if defined(__linux__)
  int code;
  do code = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  while (code == EINTR);
  return code;
#else
  return 0;
#endif
}

void* Map(int fd, size_t bytes) {
  int flags = MAP_SHARED;
#if defined(__linux__)
  // Small segments are mapped at once; a large weight board is better faulted in as it is read.
  if (bytes <= (size_t{64} << 20)) flags |= MAP_POPULATE;
#endif
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
}

// Says whose segment this will be before its pages are reserved, which takes seconds where they are many gigabytes: until
// then another process that looks for stale segments cannot tell it from one whose creator died. 0 or an errno.
int Claim(int fd) {
#if defined(__linux__)
  const int code = Reserve(fd, sizeof(SegmentHeader));
  if (code != 0) return code;
  void* data = mmap(nullptr, sizeof(SegmentHeader), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return errno;
  Sign(static_cast<SegmentHeader*>(data));
  munmap(data, sizeof(SegmentHeader));
#else
  // Elsewhere nobody can list segments, and their size is set once.
  (void)fd;
#endif
  return 0;
}

}  // namespace

std::shared_ptr<Segment> Segment::Create(const std::string& name, size_t bytes, Error* error) {
  File file{-1};
  for (int attempt = 0; attempt < 5 && file.fd < 0; ++attempt) {
    file.fd = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file.fd >= 0) break;
    if (errno != EEXIST) {
      Fill(error, "cannot create a shared-memory segment", name, errno);
      return nullptr;
    }
    ProcessToken creator = 0;
    const State state = Inspect(name, true, &creator);
    if (state == State::kAlive || state == State::kForeign) {
      error->what = "the shared-memory segment exists";
      error->got = name + (state == State::kAlive ? ", created by process " + std::to_string(PidOf(creator))
                                                  : ", not made by AgentRL");
      error->expected = "a name that is not in use";
      error->hint = "open it instead of creating it, end the run that owns it, or choose another name";
      return nullptr;
    }
  }
  if (file.fd < 0) {
    Fill(error, "cannot replace a stale shared-memory segment", name, EEXIST);
    return nullptr;
  }
  struct statvfs space;
  const bool known = fstatvfs(file.fd, &space) == 0;
  const uint64_t free = known ? static_cast<uint64_t>(space.f_bavail) * space.f_frsize : 0;
  // File systems without a limit report no blocks at all.
  if (known && space.f_blocks > 0 && free < bytes) {
    shm_unlink(name.c_str());
    NoSpace(error, free, bytes);
    return nullptr;
  }
  const int claimed = Claim(file.fd);
  const int code = claimed != 0 ? claimed : Reserve(file.fd, bytes);
  if (code != 0) {
    shm_unlink(name.c_str());
    if (code == ENOSPC || code == ENOMEM) {
      NoSpace(error, free, bytes);
    } else {
      Fill(error, "cannot reserve shared memory", name, code);
    }
    return nullptr;
  }
  void* data = Map(file.fd, bytes);
  if (data == MAP_FAILED) {
    const int failed = errno;
    shm_unlink(name.c_str());
    Fill(error, "cannot map shared memory", name, failed);
    return nullptr;
  }
  auto* header = static_cast<SegmentHeader*>(data);
  header->bytes = bytes;
  Sign(header);
  return std::shared_ptr<Segment>(new Segment(name, data, bytes));
}

std::shared_ptr<Segment> Segment::Open(const std::string& name, uint64_t magic, Error* error) {
  File file{shm_open(name.c_str(), O_RDWR, 0)};
  if (file.fd < 0) {
    const int code = errno;
    Fill(error, "cannot open the shared-memory segment", name, code);
    if (code == ENOENT) error->hint = "create it first; it is gone when the process that created it has ended";
    return nullptr;
  }
  struct stat info;
  if (fstat(file.fd, &info) != 0 || static_cast<size_t>(info.st_size) < sizeof(SegmentHeader)) {
    error->what = "the shared-memory segment is not complete";
    error->got = name;
    error->hint = "open it after its creator has returned from create, or create it again";
    return nullptr;
  }
  const size_t bytes = static_cast<size_t>(info.st_size);
  void* data = Map(file.fd, bytes);
  if (data == MAP_FAILED) {
    Fill(error, "cannot map shared memory", name, errno);
    return nullptr;
  }
  std::shared_ptr<Segment> segment(new Segment(name, data, bytes));
  const uint64_t got = segment->header()->magic.load(std::memory_order_acquire);
  // The system may round a segment's size up.
  if (got != magic || segment->header()->bytes > bytes) {
    char text[128];
    snprintf(text, sizeof text, "%s: magic %016llx, %zu bytes", name.c_str(), static_cast<unsigned long long>(got), bytes);
    error->what = got == 0 ? "the shared-memory segment is not complete" : "the shared-memory segment is of another kind";
    error->got = text;
    snprintf(text, sizeof text, "magic %016llx", static_cast<unsigned long long>(magic));
    error->expected = text;
    error->hint = "use one version of AgentRL in all processes, and the name that create was given";
    return nullptr;
  }
  if (segment->header()->pid_namespace != PidNamespace()) {
    error->what = "the shared-memory segment belongs to another pid namespace";
    error->got = name;
    error->expected = "all processes in one pid namespace: that is how dead ones are found";
    error->hint = "start the container with --pid=host, or run all processes inside it";
    return nullptr;
  }
  return segment;
}

Segment::~Segment() { munmap(data_, bytes_); }

bool Unlink(const std::string& name) { return shm_unlink(name.c_str()) == 0; }

bool UnlinkStale(const std::string& name) { return Inspect(name, true, nullptr) == State::kStale; }

int CreatorOf(const std::string& name) {
  File file{shm_open(name.c_str(), O_RDWR, 0)};
  struct stat info;
  if (file.fd < 0 || fstat(file.fd, &info) != 0 || static_cast<size_t>(info.st_size) < sizeof(SegmentHeader)) return 0;
  void* data = mmap(nullptr, sizeof(SegmentHeader), PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) return 0;
  const uint64_t magic = static_cast<SegmentHeader*>(data)->magic.load();
  const uint64_t creator = static_cast<SegmentHeader*>(data)->creator.load();
  munmap(data, sizeof(SegmentHeader));
  return (magic & kFamilyMask) == kFamily ? PidOf(creator) : 0;
}

uint64_t FreeSharedMemory() {
#if defined(__linux__)
  struct statvfs space;
  if (statvfs("/dev/shm", &space) == 0) return static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
#endif
  return 0;
}

}  // namespace agentrl::shm
