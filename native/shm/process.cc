#include "process.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace agentrl::shm {
namespace {

constexpr uint64_t kStartMask = (uint64_t{1} << 42) - 1;

enum class Look { kGone, kDead, kRunning, kUnknown };

#if defined(__APPLE__)
Look LookUp(int pid, uint64_t* start) {
  struct kinfo_proc info;
  size_t size = sizeof info;
  int mib[4] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, pid};
  if (sysctl(mib, 4, &info, &size, nullptr, 0) != 0) return Look::kUnknown;
  if (size == 0) return Look::kGone;
  *start = static_cast<uint64_t>(info.kp_proc.p_starttime.tv_sec) * 100 + info.kp_proc.p_starttime.tv_usec / 10000;
  return info.kp_proc.p_stat == SZOMB ? Look::kDead : Look::kRunning;
}
#else
// Fields of /proc/PID/stat after the command's closing bracket: state is field 3, threads 20, start time 22 (proc(5)).
Look LookUp(int pid, uint64_t* start) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? Look::kGone : Look::kUnknown;
  char text[1024];
  const ssize_t got = read(fd, text, sizeof text - 1);
  const int error = errno;
  close(fd);
  if (got <= 0) return got < 0 && error == ESRCH ? Look::kGone : Look::kUnknown;
  text[got] = 0;
  char* field = strrchr(text, ')');
  if (field == nullptr || field[1] != ' ') return Look::kUnknown;
  field += 2;
  const char state = *field;
  long threads = 0;
  for (int number = 3; number < 22; ++number) {
    field = strchr(field, ' ');
    if (field == nullptr) return Look::kUnknown;
    ++field;
    if (number + 1 == 20) threads = strtol(field, nullptr, 10);
  }
  *start = strtoull(field, nullptr, 10);
  // The first thread turns zombie before its siblings have stopped, and one of them may still be storing.
  const bool dead = (state == 'Z' || state == 'X' || state == 'x') && threads <= 1;
  return dead ? Look::kDead : Look::kRunning;
}
#endif

}  // namespace

ProcessToken SelfToken() {
  const int pid = getpid();
  uint64_t start = 0;
  LookUp(pid, &start);
  return (static_cast<uint64_t>(pid) << 42) | (start & kStartMask);
}

bool IsAlive(ProcessToken token) {
  const int pid = PidOf(token);
  if (pid <= 0) return false;
  if (kill(pid, 0) != 0 && errno == ESRCH) return false;
  uint64_t start = 0;
  switch (LookUp(pid, &start)) {
    case Look::kGone:
    case Look::kDead:
      return false;
    case Look::kRunning:
      // A token whose start time is 0 was made where the system would not tell it.
      return (token & kStartMask) == 0 || (start & kStartMask) == (token & kStartMask);
    case Look::kUnknown:
      return true;
  }
  return true;
}

uint64_t PidNamespace() {
#if defined(__linux__)
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
#else
  return 0;
#endif
}

int64_t NowNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace agentrl::shm
