// Operators that move whole rows and compute nothing: gather, scatter, writing of the KV cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pool.h"

namespace agentrl {

/** out[i,:] = x[index[i],:] */
void gatherRows(const float* x, const uint32_t* index, float* out, size_t rows, size_t dim, Pool& pool);
/** out[index[i],:] = x[i,:] */
void scatterRows(const float* x, const uint32_t* index, float* out, size_t rows, size_t dim, Pool& pool);

}  // namespace agentrl
