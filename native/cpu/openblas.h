// OpenBLAS, opened at run time when the machine has it: only to compare with in `agentrl bench gemm`.
#pragma once

#include <cstddef>

#include "kernels.h"

namespace agentrl::openblas {

/** Its own description ("OpenBLAS 0.3.21 ... SkylakeX MAX_THREADS=64"), or null where there is none. */
const char* description();

/** c = op(a) op(b), dense row-major as in MatmulArgs, on so many threads. False where there is no OpenBLAS. */
bool gemm(Layout layout, const float* a, const float* b, float* c, size_t m, size_t n, size_t k, int threads);

}  // namespace agentrl::openblas
