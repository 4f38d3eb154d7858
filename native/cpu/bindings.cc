// What JavaScript sees of the CPU operators. Convention: the function is named as the method of `Device`; arguments are
// the tensors in the order of the interface's fields, one that may have 16 bits followed by the name of its type, then the
// numbers and flags. src/device/addon.ts types them.
#include <napi.h>

#include "args.h"
#include "kernels.h"
#include "openblas.h"
#include "rows.h"
#include "sampling.h"

namespace agentrl {

/** The head, AdamW and the gradient's norm: bindings_learning.cc. */
void defineLearning(napi_env env, napi_value exports);
/** Attention, normalisation and rotary embedding: bindings_attention.cc. */
void defineAttention(napi_env env, napi_value exports);

namespace {

Pool& pool() { return Pool::shared(); }

// ---- Settings ----

void setThreads(Args& args) { pool().setThreads(static_cast<int>(args.size("threads"))); }

/** The name of the instruction set in force. */
void simd(Args& args) {
  napi_value name;
  napi_create_string_utf8(args.env(), kernels().name, NAPI_AUTO_LENGTH, &name);
  args.result(name);
}

void setSimd(Args& args) {
  const std::string name = args.text("name");
  if (selectKernels(name.c_str())) return;
  std::string all;
  for (size_t i = 0; availableKernels(i) != nullptr; i++) all += std::string(i > 0 ? ", " : "") + availableKernels(i);
  throw ArgumentError{true, "name", name, "one of " + all};
}

void simdLevels(Args& args) {
  napi_value list;
  napi_create_array(args.env(), &list);
  for (size_t i = 0; availableKernels(i) != nullptr; i++) {
    napi_value name;
    napi_create_string_utf8(args.env(), availableKernels(i), NAPI_AUTO_LENGTH, &name);
    napi_set_element(args.env(), list, static_cast<uint32_t>(i), name);
  }
  args.result(list);
}

/** alignOffset(buffer): bytes from the start of an ArrayBuffer to its first 64-byte boundary. */
void alignOffset(Args& args) {
  void* data = nullptr;
  size_t length = 0;
  napi_value buffer = args.raw();
  if (buffer == nullptr || napi_get_arraybuffer_info(args.env(), buffer, &data, &length) != napi_ok)
    throw ArgumentError{false, "buffer", "something else", "an ArrayBuffer"};
  args.result(static_cast<double>((64 - reinterpret_cast<uintptr_t>(data) % 64) % 64));
}

/** release(buffer): frees the memory now; every view on it gets length 0. */
void release(Args& args) {
  napi_value buffer = args.raw();
  if (buffer == nullptr || napi_detach_arraybuffer(args.env(), buffer) != napi_ok)
    throw ArgumentError{false, "buffer", "something else", "an ArrayBuffer that can be detached"};
}

/** philox(counter0..3, key0, key1): the four random words, for known-answer tests. */
void philoxWords(Args& args) {
  uint32_t counter[4], key[2], words[4];
  for (uint32_t& word : counter) word = static_cast<uint32_t>(args.size("counter"));
  for (uint32_t& word : key) word = static_cast<uint32_t>(args.size("key"));
  philox(counter, key, words);
  napi_value list;
  napi_create_array_with_length(args.env(), 4, &list);
  for (uint32_t i = 0; i < 4; i++) {
    napi_value word;
    napi_create_uint32(args.env(), words[i], &word);
    napi_set_element(args.env(), list, i, word);
  }
  args.result(list);
}

// ---- Matrix product ----

Layout readLayout(Args& args) {
  const std::string text = args.text("layout");
  if (text == "nn") return Layout::nn;
  if (text == "nt") return Layout::nt;
  if (text == "tn") return Layout::tn;
  throw ArgumentError{true, "layout", text, "nn, nt or tn"};
}

void matmul(Args& args) {
  const Layout layout = readLayout(args);
  const auto a = args.f32("a");
  const auto b = args.numbers("b");
  const auto out = args.f32("out"), bias = args.f32OrNull("bias");
  const size_t m = args.size("m"), n = args.size("n"), k = args.size("k");
  const bool accumulate = args.flag("accumulate");
  kernels().matmul({layout, args.need(a, m * k, "m * k"), args.need(b, k * n, "k * n"), args.need(out, m * n, "m * n"),
                    args.needOrNull(bias, n, "n"), accumulate, m, n, k},
                   pool());
}

/** Description of OpenBLAS, or null. */
void openblasDescription(Args& args) {
  napi_value text;
  if (openblas::description() == nullptr)
    napi_get_null(args.env(), &text);
  else
    napi_create_string_utf8(args.env(), openblas::description(), NAPI_AUTO_LENGTH, &text);
  args.result(text);
}

void openblasMatmul(Args& args) {
  const Layout layout = readLayout(args);
  const auto a = args.f32("a"), b = args.f32("b"), out = args.f32("out");
  const size_t m = args.size("m"), n = args.size("n"), k = args.size("k"), threads = args.size("threads");
  openblas::gemm(layout, args.need(a, m * k, "m * k"), args.need(b, k * n, "k * n"), args.need(out, m * n, "m * n"), m, n, k,
                 static_cast<int>(threads));
}

// ---- Rows ----

void embed(Args& args) {
  const auto table = args.numbers("table");
  const auto ids = args.u32("ids");
  const auto out = args.f32("out");
  const size_t rows = args.size("rows"), dim = args.size("dim"), vocab = args.size("vocab");
  args.need(ids, rows, "rows");
  kernels().embed({args.need(table, vocab * dim, "vocab * dim"), args.below(ids, rows, vocab, "vocab"),
                   args.need(out, rows * dim, "rows * dim"), rows, dim},
                  pool());
}

void embedBackward(Args& args) {
  const auto ids = args.u32("ids");
  const auto dOut = args.f32("dOut"), dTable = args.f32("dTable");
  const size_t rows = args.size("rows"), dim = args.size("dim"), vocab = args.size("vocab");
  args.need(ids, rows, "rows");
  kernels().embedBackward({args.below(ids, rows, vocab, "vocab"), args.need(dOut, rows * dim, "rows * dim"),
                           args.need(dTable, vocab * dim, "vocab * dim"), rows, dim, vocab},
                          pool());
}

void gatherRows(Args& args) {
  const auto x = args.f32("x");
  const auto index = args.u32("index");
  const auto out = args.f32("out");
  const size_t rows = args.size("rows"), dim = args.size("dim");
  args.need(index, rows, "rows");
  gatherRows(x.data, args.below(index, rows, dim == 0 ? 0 : x.length / dim, "rows of x"),
             args.need(out, rows * dim, "rows * dim"), rows, dim, pool());
}

void scatterRows(Args& args) {
  const auto x = args.f32("x");
  const auto index = args.u32("index");
  const auto out = args.f32("out");
  const size_t rows = args.size("rows"), dim = args.size("dim");
  args.need(index, rows, "rows");
  scatterRows(args.need(x, rows * dim, "rows * dim"), args.below(index, rows, dim == 0 ? 0 : out.length / dim, "rows of out"),
              out.data, rows, dim, pool());
}

void kvWrite(Args& args) {
  const auto k = args.f32("k"), v = args.f32("v"), kCache = args.f32("kCache"), vCache = args.f32("vCache");
  const auto slots = args.u32("slots");
  const size_t rows = args.size("rows"), width = args.size("width");
  args.need(slots, rows, "rows");
  const size_t places = width == 0 ? 0 : (kCache.length < vCache.length ? kCache.length : vCache.length) / width;
  args.below(slots, rows, places, "slots of the cache");
  scatterRows(args.need(k, rows * width, "rows * width"), slots.data, kCache.data, rows, width, pool());
  scatterRows(args.need(v, rows * width, "rows * width"), slots.data, vCache.data, rows, width, pool());
}

// ---- Elementwise ----

void add(Args& args) {
  const auto a = args.f32("a"), b = args.f32("b"), out = args.f32("out");
  const size_t length = args.size("length");
  kernels().add({args.need(a, length, "length"), args.need(b, length, "length"), args.need(out, length, "length"), length},
                pool());
}

void scale(Args& args) {
  const auto x = args.f32("x"), out = args.f32("out");
  const auto factor = static_cast<float>(args.number("factor"));
  const size_t length = args.size("length");
  kernels().scale({args.need(x, length, "length"), args.need(out, length, "length"), factor, length}, pool());
}

void roundHalf(Args& args) {
  const auto x = args.f32("x");
  const auto out = args.numbers("out");
  const Number rounded = args.numberType("dtype");
  const size_t length = args.size("length");
  if (rounded == Number::f32 || (out.stored.type != Number::f32 && out.stored.type != rounded))
    throw ArgumentError{true, "dtype", "another type than out's", "f16 or bf16, out's own where that has 16 bits"};
  const Stored to = args.need(out, length, "length");
  kernels().roundHalf({args.need(x, length, "length"), const_cast<void*>(to.data), to.type, rounded, length}, pool());
}

void swiglu(Args& args) {
  const auto gate = args.f32("gate"), up = args.f32("up"), out = args.f32("out");
  const size_t length = args.size("length");
  kernels().swiglu(
      {args.need(gate, length, "length"), args.need(up, length, "length"), args.need(out, length, "length"), length},
      pool());
}

void swigluBackward(Args& args) {
  const auto gate = args.f32("gate"), up = args.f32("up"), dOut = args.f32("dOut");
  const auto dGate = args.f32("dGate"), dUp = args.f32("dUp");
  const size_t length = args.size("length");
  kernels().swigluBackward({args.need(gate, length, "length"), args.need(up, length, "length"),
                            args.need(dOut, length, "length"), args.need(dGate, length, "length"),
                            args.need(dUp, length, "length"), length},
                           pool());
}

}  // namespace

void RegisterCpu(Napi::Env env, Napi::Object exports) {
  const auto on = [&](const char* name, Binding binding) { define(env, exports, name, binding); };
  on("setThreads", setThreads);
  on("simd", simd);
  on("setSimd", setSimd);
  on("simdLevels", simdLevels);
  on("alignOffset", alignOffset);
  on("release", release);
  on("philox", philoxWords);
  on("matmul", matmul);
  on("openblasDescription", openblasDescription);
  on("openblasMatmul", openblasMatmul);
  on("embed", embed);
  on("embedBackward", embedBackward);
  on("gatherRows", gatherRows);
  on("scatterRows", scatterRows);
  on("kvWrite", kvWrite);
  on("add", add);
  on("scale", scale);
  on("roundHalf", roundHalf);
  on("swiglu", swiglu);
  on("swigluBackward", swigluBackward);
  defineLearning(env, exports);
  defineAttention(env, exports);
}

}  // namespace agentrl
