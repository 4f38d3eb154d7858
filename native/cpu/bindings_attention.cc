// Bindings of rmsNorm, rope and the attention operators; conventions as in bindings.cc.
#include "args.h"
#include "kernels.h"

namespace agentrl {

namespace {

// ---- Normalisation, rotary embedding ----

void rmsNorm(Args& args) {
  const auto x = args.f32("x"), weight = args.f32("weight"), out = args.f32("out"), invRms = args.f32("invRms");
  const size_t rows = args.size("rows"), dim = args.size("dim");
  const auto eps = static_cast<float>(args.number("eps"));
  kernels().rmsNorm({args.need(x, rows * dim, "rows * dim"), args.need(weight, dim, "dim"),
                     args.need(out, rows * dim, "rows * dim"), args.need(invRms, rows, "rows"), rows, dim, eps},
                    Pool::shared());
}

void rmsNormBackward(Args& args) {
  const auto x = args.f32("x"), weight = args.f32("weight"), invRms = args.f32("invRms"), dOut = args.f32("dOut");
  const auto dX = args.f32("dX"), dWeight = args.f32OrNull("dWeight");
  const size_t rows = args.size("rows"), dim = args.size("dim");
  const bool accumulate = args.flag("accumulate");
  kernels().rmsNormBackward({args.need(x, rows * dim, "rows * dim"), args.need(weight, dim, "dim"),
                             args.need(invRms, rows, "rows"), args.need(dOut, rows * dim, "rows * dim"),
                             args.need(dX, rows * dim, "rows * dim"), args.needOrNull(dWeight, dim, "dim"), rows, dim,
                             accumulate},
                            Pool::shared());
}

void rope(Args& args) {
  const auto x = args.f32("x"), cosSin = args.f32("cosSin");
  const auto positions = args.u32("positions");
  const size_t rows = args.size("rows"), heads = args.size("heads"), headDim = args.size("headDim");
  const bool inverse = args.flag("inverse");
  if (headDim == 0 || headDim % 2 != 0)
    throw ArgumentError{true, "headDim", std::to_string(headDim), "an even number above 0"};
  args.need(positions, rows, "rows");
  kernels().rope({args.need(x, rows * heads * headDim, "rows * heads * headDim"), cosSin.data,
                  args.below(positions, rows, cosSin.length / headDim, "the number of positions in cosSin,"), rows,
                  heads, headDim, inverse},
                 Pool::shared());
}

// ---- Attention ----

AttentionShape attentionShape(Args& args) {
  AttentionShape shape;
  shape.heads = args.size("heads");
  shape.kvHeads = args.size("kvHeads");
  shape.headDim = args.size("headDim");
  shape.scale = static_cast<float>(args.number("scale"));
  if (shape.kvHeads == 0 || shape.heads == 0 || shape.heads % shape.kvHeads != 0)
    throw ArgumentError{true, "heads", std::to_string(shape.heads),
                        "a multiple of kvHeads = " + std::to_string(shape.kvHeads)};
  if (shape.headDim == 0 || shape.headDim % 8 != 0 || shape.headDim > 256)
    throw ArgumentError{true, "headDim", std::to_string(shape.headDim), "a multiple of 8 from 8 to 256"};
  return shape;
}

/** Row offsets that do not descend; returns the last. */
size_t checkOffsets(const Span<uint32_t>& offsets, size_t sequences) {
  Args::need(offsets, sequences + 1, "sequences + 1");
  for (size_t s = 0; s < sequences; s++)
    if (offsets.data[s] > offsets.data[s + 1])
      throw ArgumentError{true, "offsets[" + std::to_string(s + 1) + "]", std::to_string(offsets.data[s + 1]),
                          "at least the offset before it, " + std::to_string(offsets.data[s])};
  return offsets.data[sequences];
}

constexpr const char* kQueryShape = "rows * heads * headDim";
constexpr const char* kKeyShape = "rows * kvHeads * headDim";

void attention(Args& args) {
  const auto q = args.f32("q"), k = args.f32("k"), v = args.f32("v"), out = args.f32("out"), lse = args.f32("lse");
  const auto offsets = args.u32("offsets");
  const AttentionShape shape = attentionShape(args);
  const size_t sequences = args.size("sequences");
  const size_t rows = checkOffsets(offsets, sequences);
  const size_t queries = rows * shape.heads * shape.headDim, keys = rows * shape.kvHeads * shape.headDim;
  kernels().attention({shape, args.need(q, queries, kQueryShape), args.need(k, keys, kKeyShape),
                       args.need(v, keys, kKeyShape), args.need(out, queries, kQueryShape),
                       args.need(lse, rows * shape.heads, "rows * heads"), offsets.data, sequences},
                      Pool::shared());
}

void attentionBackward(Args& args) {
  const auto q = args.f32("q"), k = args.f32("k"), v = args.f32("v"), out = args.f32("out"), lse = args.f32("lse");
  const auto offsets = args.u32("offsets");
  const auto dOut = args.f32("dOut"), dQ = args.f32("dQ"), dK = args.f32("dK"), dV = args.f32("dV");
  const AttentionShape shape = attentionShape(args);
  const size_t sequences = args.size("sequences");
  const size_t rows = checkOffsets(offsets, sequences);
  const size_t queries = rows * shape.heads * shape.headDim, keys = rows * shape.kvHeads * shape.headDim;
  kernels().attentionBackward({shape, args.need(q, queries, kQueryShape), args.need(k, keys, kKeyShape),
                               args.need(v, keys, kKeyShape), args.need(out, queries, kQueryShape),
                               args.need(lse, rows * shape.heads, "rows * heads"), offsets.data, sequences,
                               args.need(dOut, queries, kQueryShape), args.need(dQ, queries, kQueryShape),
                               args.need(dK, keys, kKeyShape), args.need(dV, keys, kKeyShape)},
                              Pool::shared());
}

void attentionCached(Args& args) {
  const auto q = args.f32("q"), kCache = args.f32("kCache"), vCache = args.f32("vCache"), out = args.f32("out");
  const auto positions = args.u32("positions"), sequenceOf = args.u32("sequenceOf"), pageTable = args.u32("pageTable");
  const AttentionShape shape = attentionShape(args);
  const size_t stride = args.size("pageTableStride"), rows = args.size("rows");
  const size_t queries = rows * shape.heads * shape.headDim;
  args.need(positions, rows, "rows");
  args.need(sequenceOf, rows, "rows");
  const size_t shorter = kCache.length < vCache.length ? kCache.length : vCache.length;
  const size_t pages = shorter / (kAttentionBlock * shape.kvHeads * shape.headDim);
  const size_t lines = stride == 0 ? 0 : pageTable.length / stride;
  args.below(sequenceOf, rows, lines, "the number of lines of pageTable,");
  args.below(positions, rows, stride * kAttentionBlock, "pageTableStride pages of keys,");
  for (size_t row = 0; row < rows; row++) {
    const size_t line = sequenceOf.data[row] * stride;
    for (size_t i = line; i <= line + positions.data[row] / kAttentionBlock; i++)
      if (pageTable.data[i] >= pages)
        throw ArgumentError{true, "pageTable[" + std::to_string(i) + "]", std::to_string(pageTable.data[i]),
                            "below the number of pages in the cache, " + std::to_string(pages)};
  }
  kernels().attentionCached({shape, args.need(q, queries, kQueryShape), kCache.data, vCache.data,
                             args.need(out, queries, kQueryShape), positions.data, sequenceOf.data, pageTable.data,
                             stride, rows},
                            Pool::shared());
}

}  // namespace

void defineAttention(napi_env env, napi_value exports) {
  define(env, exports, "rmsNorm", rmsNorm);
  define(env, exports, "rmsNormBackward", rmsNormBackward);
  define(env, exports, "rope", rope);
  define(env, exports, "attention", attention);
  define(env, exports, "attentionBackward", attentionBackward);
  define(env, exports, "attentionCached", attentionCached);
}

}  // namespace agentrl
