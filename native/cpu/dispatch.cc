// Which instruction set runs: asked of the machine once, at load.
#include <cstdlib>
#include <cstring>

#include "kernels.h"

// Builds for the thread sanitizer have the plain kernels only (CMakeLists.txt).
#if defined(AGENTRL_PLAIN_ONLY)
#elif defined(__x86_64__)
#define AGENTRL_X86
#elif defined(__aarch64__)
#define AGENTRL_ARM
#endif

namespace agentrl {

namespace plain {
extern const Kernels kTable;
}
#if defined(AGENTRL_X86)
namespace avx2 {
extern const Kernels kTable;
}
namespace avx512 {
extern const Kernels kTable;
}
#elif defined(AGENTRL_ARM)
namespace neon {
extern const Kernels kTable;
}
#endif

namespace {

const Kernels* available(size_t i) {
  static const Kernels* list[4] = {};
  static const bool filled = [] {
    size_t n = 0;
#if defined(AGENTRL_X86)
    __builtin_cpu_init();
    // What has AVX2 has F16C; not every compiler can be asked for the latter.
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
      list[n++] = &avx512::kTable;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list[n++] = &avx2::kTable;
#elif defined(AGENTRL_ARM)
    list[n++] = &neon::kTable;
#endif
    list[n++] = &plain::kTable;
    return true;
  }();
  return filled && i < 4 ? list[i] : nullptr;
}

const Kernels* find(const char* name) {
  for (size_t i = 0; available(i) != nullptr; i++)
    if (std::strcmp(available(i)->name, name) == 0) return available(i);
  return nullptr;
}

const Kernels*& selected() {
  static const Kernels* table = [] {
    const char* wanted = std::getenv("AGENTRL_SIMD");
    const Kernels* found = wanted == nullptr ? nullptr : find(wanted);
    return found == nullptr ? available(0) : found;
  }();
  return table;
}

}  // namespace

const Kernels& kernels() { return *selected(); }

bool selectKernels(const char* name) {
  const Kernels* found = find(name);
  if (found == nullptr) return false;
  selected() = found;
  return true;
}

const char* availableKernels(size_t i) { return available(i) == nullptr ? nullptr : available(i)->name; }

}  // namespace agentrl
