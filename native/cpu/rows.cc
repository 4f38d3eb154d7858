#include "rows.h"

#include <cstring>

namespace agentrl {

namespace {

/** Rows per chunk: at least some 128 KiB of copying. */
size_t grain(size_t dim) { return 1 + 32768 / (dim + 1); }

}  // namespace

void gatherRows(const float* x, const uint32_t* index, float* out, size_t rows, size_t dim, Pool& pool) {
  pool.parallelFor(rows, grain(dim), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) std::memcpy(out + i * dim, x + index[i] * dim, dim * sizeof(float));
  });
}

void scatterRows(const float* x, const uint32_t* index, float* out, size_t rows, size_t dim, Pool& pool) {
  pool.parallelFor(rows, grain(dim), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) std::memcpy(out + index[i] * dim, x + i * dim, dim * sizeof(float));
  });
}

}  // namespace agentrl
