// What JavaScript sees of the CPU operators. Convention: the function is named as the method of `Device`; arguments are
// the tensors in the order of the interface's fields, then the numbers and flags. src/device/addon.ts types them.
#include <napi.h>

#include "args.h"
#include "kernels.h"

namespace agentrl {

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

// ---- Elementwise ----

void add(Args& args) {
  const auto a = args.f32("a"), b = args.f32("b"), out = args.f32("out");
  const size_t length = args.size("length");
  kernels().add({args.need(a, length, "length"), args.need(b, length, "length"), args.need(out, length, "length"), length},
                pool());
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
  on("add", add);
  on("swiglu", swiglu);
  on("swigluBackward", swigluBackward);
  defineAttention(env, exports);
}

}  // namespace agentrl
