// Everything about shared memory that the addon exports, as one object `shm`.
#include "bindings.h"

#include <cstring>
#include <vector>

#include "crc32c.h"
#include "process.h"

namespace agentrl::shm {
namespace {

Napi::Value UnlinkName(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), Unlink(Text(info, 0)));
}

Napi::Value UnlinkStaleName(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), UnlinkStale(Text(info, 0)));
}

Napi::Value Free(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(FreeSharedMemory()));
}

// A typed array's bytes.
const uint8_t* BytesOf(const Napi::CallbackInfo& info, size_t* bytes) {
  if (!info[0].IsTypedArray()) throw Napi::TypeError::New(info.Env(), "expected a typed array");
  const auto array = info[0].As<Napi::TypedArray>();
  *bytes = array.ByteLength();
  return static_cast<const uint8_t*>(array.ArrayBuffer().Data()) + array.ByteOffset();
}

Napi::Value Checksum(const Napi::CallbackInfo& info) {
  size_t bytes;
  const uint8_t* data = BytesOf(info, &bytes);
  char text[17];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(Checksum64(data, bytes)));
  return Napi::String::New(info.Env(), text);
}

Napi::Value Crc(const Napi::CallbackInfo& info) {
  size_t bytes;
  const uint8_t* data = BytesOf(info, &bytes);
  return Napi::Number::New(info.Env(), Crc32c(data, bytes));
}

// memcpySeconds(bytes, region, count): time to copy a record of `bytes` `count` times to successive places of a region
// as large as a ring. What `agentrl bench ring` compares with.
Napi::Value MemcpySeconds(const Napi::CallbackInfo& info) {
  const size_t bytes = Size(info, 0), region = Size(info, 1), count = Size(info, 2);
  if (bytes == 0 || bytes > region) throw Napi::RangeError::New(info.Env(), "bytes must be in 1..region");
  const std::vector<uint8_t> from(bytes, 1);
  std::vector<uint8_t> to(region, 2);
  const int64_t start = NowNanos();
  for (size_t i = 0, at = 0; i < count; ++i) {
    memcpy(to.data() + at, from.data(), bytes);
    // Keeps the compiler from dropping copies that are overwritten unread.
    asm volatile("" : : "r"(to.data()) : "memory");
    at = at + 2 * bytes <= region ? at + bytes : 0;
  }
  return Napi::Number::New(info.Env(), static_cast<double>(NowNanos() - start) / 1e9);
}

}  // namespace
}  // namespace agentrl::shm

namespace agentrl {

void RegisterShm(Napi::Env env, Napi::Object exports) {
  Napi::Object shm = Napi::Object::New(env);
  shm.Set("unlink", Napi::Function::New(env, shm::UnlinkName));
  shm.Set("unlinkStale", Napi::Function::New(env, shm::UnlinkStaleName));
  shm.Set("freeSharedMemory", Napi::Function::New(env, shm::Free));
  shm.Set("checksum", Napi::Function::New(env, shm::Checksum));
  shm.Set("crc32c", Napi::Function::New(env, shm::Crc));
  shm.Set("memcpySeconds", Napi::Function::New(env, shm::MemcpySeconds));
  shm::RegisterRing(env, shm);
  shm::RegisterBoard(env, shm);
  shm::RegisterCounters(env, shm);
  exports.Set("shm", shm);
}

}  // namespace agentrl
