// Arguments of the CPU kernels and the table of them that one instruction set provides. The meaning of each operator is
// in src/device/device.ts; shapes have been checked before a kernel is called.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numbers.h"
#include "pool.h"

namespace agentrl {

// As in src/device/device.ts.
constexpr size_t kAttentionBlock = 32;
constexpr size_t kVocabChunk = 512;

enum class Layout { nn, nt, tn };

struct MatmulArgs {
  Layout layout;
  const float* a;
  Stored b;
  float* out;
  const float* bias;  // or null
  bool accumulate;
  size_t m, n, k;
};

struct RmsNormArgs {
  const float *x, *weight;
  float *out, *invRms;
  size_t rows, dim;
  float eps;
};

struct RmsNormBackwardArgs {
  const float *x, *weight, *invRms, *dOut;
  float *dX, *dWeight;  // dWeight may be null
  size_t rows, dim;
  bool accumulate;
};

struct RopeArgs {
  float* x;
  const float* cosSin;
  const uint32_t* positions;
  size_t rows, heads, headDim;
  bool inverse;
};

struct AttentionShape {
  size_t heads, kvHeads, headDim;
  float scale;
};

struct AttentionArgs : AttentionShape {
  const float *q, *k, *v;
  float *out, *lse;
  const uint32_t* offsets;
  size_t sequences;
};

struct AttentionBackwardArgs : AttentionShape {
  const float *q, *k, *v, *out, *lse;
  const uint32_t* offsets;
  size_t sequences;
  const float* dOut;
  float *dQ, *dK, *dV;
};

struct AttentionCachedArgs : AttentionShape {
  const float *q, *kCache, *vCache;
  float* out;
  const uint32_t *positions, *sequenceOf, *pageTable;
  size_t pageTableStride, rows;
};

struct AddArgs {
  const float *a, *b;
  float* out;
  size_t length;
};

struct ScaleArgs {
  const float* x;
  float* out;
  float factor;
  size_t length;
};

struct RoundHalfArgs {
  const float* x;
  void* out;
  Number stored;   // what out consists of
  Number rounded;  // to what: f16 or bf16
  size_t length;
};

struct SwigluArgs {
  const float *gate, *up;
  float* out;
  size_t length;
};

struct SwigluBackwardArgs {
  const float *gate, *up, *dOut;
  float *dGate, *dUp;
  size_t length;
};

struct AdamwArgs {
  const float* param;
  float* out;
  const float* grad;
  float *m, *v;
  size_t length;
  double lr, beta1, beta2, eps, weightDecay, step, gradScale;
};

struct SumSquaresArgs {
  const float* x;
  size_t length;
  double* result;
};

struct EmbedArgs {
  Stored table;
  const uint32_t* ids;
  float* out;
  size_t rows, dim;
};

struct EmbedBackwardArgs {
  const uint32_t* ids;
  const float* dOut;
  float* dTable;
  size_t rows, dim, vocab;
};

struct HeadShape {
  const float* hidden;
  Stored weight;
  bool tied;
  size_t rows, dim, vocab;
};

struct HeadLogProbArgs : HeadShape {
  const uint32_t* targets;
  const float* temperatures;
  float *logProbs, *entropies, *lse;
};

struct HeadBackwardArgs : HeadShape {
  const uint32_t* targets;
  const float *temperatures, *lse, *entropies, *dLogProbs, *dEntropies;
  float *dHidden, *dWeight;  // dWeight may be null
};

struct HeadSampleArgs : HeadShape {
  const float* temperatures;
  const uint32_t* topK;
  const float *topP, *minP;
  const uint32_t* seeds;
  uint32_t* tokens;
  float *logProbs, *keptMass;
};

struct Kernels {
  const char* name;
#define KERNEL(name, Args) void (*name)(const Args& args, Pool& pool);
#include "kernel_list.h"
#undef KERNEL
};

/** The table in force: the best that the machine has, or what AGENTRL_SIMD names. */
const Kernels& kernels();
/** Chooses by name; false when this build or machine lacks it. */
bool selectKernels(const char* name);
/** The i-th instruction set that this build and machine have, best first; null after the last. */
const char* availableKernels(size_t i);

}  // namespace agentrl

// Declarations in the namespace of the instruction set being compiled.
#ifdef AGENTRL_ISA
namespace agentrl::AGENTRL_ISA {
#define KERNEL(name, Args) void name(const Args& args, Pool& pool);
#include "kernel_list.h"
#undef KERNEL
}  // namespace agentrl::AGENTRL_ISA
#endif
