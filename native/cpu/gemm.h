// Matrix product on sub-matrices: what matmul and the fused head are made of.
#pragma once

#include "kernels.h"

namespace agentrl::AGENTRL_ISA {

/**
 * c[m,n] = op(a) op(b), b of any type of number, with bias and accumulate as in MatmulArgs; lda, ldb, ldc are the distances between rows as
 * stored. Every element of c is one chain of fused multiply-adds over k ascending, whatever the shape and the threads,
 * and whatever b's numbers are stored in.
 */
struct Gemm {
  Layout layout;
  const float* a;
  size_t lda;
  Stored b;
  size_t ldb;
  float* c;
  size_t ldc;
  const float* bias;
  bool accumulate;
  size_t m, n, k;
};

void gemm(const Gemm& x, Pool& pool);

}  // namespace agentrl::AGENTRL_ISA
