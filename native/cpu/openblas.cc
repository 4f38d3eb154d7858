#include "openblas.h"

#include <dlfcn.h>

namespace agentrl::openblas {

namespace {

// From cblas.h.
constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
using Sgemm = void (*)(int order, int transA, int transB, int m, int n, int k, float alpha, const float* a, int lda,
                       const float* b, int ldb, float beta, float* c, int ldc);

struct Library {
  Sgemm sgemm = nullptr;
  void (*setThreads)(int) = nullptr;
  const char* description = nullptr;
};

const Library& library() {
  static const Library loaded = [] {
    Library found;
    for (const char* name : {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib"}) {
      void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr) continue;
      found.sgemm = reinterpret_cast<Sgemm>(dlsym(handle, "cblas_sgemm"));
      found.setThreads = reinterpret_cast<void (*)(int)>(dlsym(handle, "openblas_set_num_threads"));
      const auto config = reinterpret_cast<const char* (*)()>(dlsym(handle, "openblas_get_config"));
      if (found.sgemm == nullptr || found.setThreads == nullptr) continue;
      found.description = config == nullptr ? "OpenBLAS" : config();
      break;
    }
    return found;
  }();
  return loaded;
}

}  // namespace

const char* description() { return library().description; }

bool gemm(Layout layout, const float* a, const float* b, float* c, size_t m, size_t n, size_t k, int threads) {
  const Library& blas = library();
  if (blas.description == nullptr) return false;
  static int threadsInForce = 0;
  if (threadsInForce != threads) blas.setThreads(threadsInForce = threads);
  const bool ta = layout == Layout::tn, tb = layout == Layout::nt;
  blas.sgemm(kRowMajor, ta ? kTrans : kNoTrans, tb ? kTrans : kNoTrans, static_cast<int>(m), static_cast<int>(n),
             static_cast<int>(k), 1.0f, a, static_cast<int>(ta ? m : k), b, static_cast<int>(tb ? k : n), 0.0f, c,
             static_cast<int>(n));
  return true;
}

}  // namespace agentrl::openblas
