// Shared by the bindings of ring, board and counters: handles, errors, arguments.
#pragma once
#include <napi.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "segment.h"
#include "waiter.h"

namespace agentrl::shm {

// An Error with the fields of AgentRLError's detail; src/shm/native.ts makes one of it.
inline Napi::Error ToNapi(Napi::Env env, const Error& error) {
  Napi::Error out = Napi::Error::New(env, error.what);
  out.Set("sharedMemory", Napi::Boolean::New(env, true));
  if (!error.got.empty()) out.Set("got", Napi::String::New(env, error.got));
  if (!error.expected.empty()) out.Set("expected", Napi::String::New(env, error.expected));
  if (!error.hint.empty()) out.Set("hint", Napi::String::New(env, error.hint));
  return out;
}

// `Handle` has an `object` (Ring, Board, Counters) that is null once closed.
template <typename Handle>
Handle& Unwrap(const Napi::CallbackInfo& info) {
  Handle* handle = info[0].As<Napi::External<Handle>>().Data();
  if (handle->object == nullptr) {
    throw ToNapi(info.Env(), {"the shared-memory handle is closed", "", "an open handle", "open it again"});
  }
  return *handle;
}

template <typename Handle>
Napi::Value Wrap(Napi::Env env, std::unique_ptr<Handle> handle) {
  return Napi::External<Handle>::New(env, handle.release(), [](Napi::Env, Handle* data) { delete data; });
}

inline std::string Text(const Napi::CallbackInfo& info, size_t index) { return info[index].As<Napi::String>(); }
inline double Number(const Napi::CallbackInfo& info, size_t index) {
  return info[index].As<Napi::Number>().DoubleValue();
}
inline size_t Size(const Napi::CallbackInfo& info, size_t index) {
  return static_cast<size_t>(std::max(0.0, Number(info, index)));
}
// Milliseconds, also Infinity, as nanoseconds.
inline int64_t Nanos(const Napi::CallbackInfo& info, size_t index) {
  return static_cast<int64_t>(std::clamp(Number(info, index), 0.0, 1e12) * 1e6);
}

void RegisterRing(Napi::Env env, Napi::Object exports);
void RegisterBoard(Napi::Env env, Napi::Object exports);
void RegisterCounters(Napi::Env env, Napi::Object exports);

}  // namespace agentrl::shm
