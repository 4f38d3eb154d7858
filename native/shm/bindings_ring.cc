// Node-API surface of the ring. Statuses go to JavaScript as numbers (Status); words come from src/shm/ring.ts.
#include "bindings.h"
#include "ring.h"

namespace agentrl::shm {
namespace {

struct RingHandle {
  RingHandle(Napi::Env env, std::unique_ptr<Ring> ring)
      : object(std::move(ring)),
        data(env, "agentrl ring: record", [this] { object->Cancel(); }),
        space(env, "agentrl ring: space", [this] { object->Cancel(); }) {}
  std::unique_ptr<Ring> object;
  Waiter data, space;  // after the ring: their threads end first
};

Napi::Value Code(Napi::Env env, Status status) { return Napi::Number::New(env, static_cast<int>(status)); }

Napi::Value Create(const Napi::CallbackInfo& info) {
  Error error;
  auto ring = Ring::Create(Text(info, 0), Size(info, 1), &error);
  if (ring == nullptr) throw ToNapi(info.Env(), error);
  return Wrap(info.Env(), std::make_unique<RingHandle>(info.Env(), std::move(ring)));
}

Napi::Value Open(const Napi::CallbackInfo& info) {
  Error error;
  auto ring = Ring::Open(Text(info, 0), &error);
  if (ring == nullptr) throw ToNapi(info.Env(), error);
  return Wrap(info.Env(), std::make_unique<RingHandle>(info.Env(), std::move(ring)));
}

// ringTryPush(ring, bytes: Uint8Array): status
Napi::Value TryPush(const Napi::CallbackInfo& info) {
  const auto bytes = info[1].As<Napi::Uint8Array>();
  return Code(info.Env(), Unwrap<RingHandle>(info).object->TryPush(bytes.Data(), bytes.ByteLength()));
}

Taken TakenFrom(const Napi::CallbackInfo& info) {
  Taken taken;
  taken.offset = Size(info, 1);
  taken.sequence = Size(info, 2);
  return taken;
}

// Takes a record and describes it in `about`: offset, sequence, deliveries, bytes, place in the buffer.
Status TakeAbout(const Napi::CallbackInfo& info, Ring& ring, Taken* taken) {
  auto about = info[1].As<Napi::Float64Array>();
  if (about.ElementLength() < 5) throw Napi::RangeError::New(info.Env(), "about needs 5 elements");
  const Status status = ring.TryTake(taken);
  if (status != Status::kOk) return status;
  double* out = about.Data();
  out[0] = static_cast<double>(taken->offset);
  out[1] = static_cast<double>(taken->sequence);
  out[2] = taken->deliveries;
  out[3] = taken->bytes;
  out[4] = static_cast<double>(ring.Payload(*taken) - ring.buffer());
  return status;
}

// ringTryTake(ring, about: Float64Array): Buffer | status. The Buffer is a copy.
Napi::Value TryTake(const Napi::CallbackInfo& info) {
  Ring& ring = *Unwrap<RingHandle>(info).object;
  Taken taken;
  Status status = TakeAbout(info, ring, &taken);
  if (status != Status::kOk) return Code(info.Env(), status);
  napi_value buffer;
  void* data;
  // Not zeroed first, unlike a new Uint8Array.
  if (napi_create_buffer(info.Env(), taken.bytes, &data, &buffer) != napi_ok) {
    ring.Return(taken);
    throw Napi::Error::New(info.Env(), "no memory for a record of " + std::to_string(taken.bytes) + " bytes");
  }
  status = ring.Read(taken, data);
  if (status != Status::kOk) return Code(info.Env(), status);
  return Napi::Value(info.Env(), buffer);
}

// ringTryTakeInPlace(ring, about: Float64Array): status. The record is checked and lies in ringBuffer at `place`.
Napi::Value TryTakeInPlace(const Napi::CallbackInfo& info) {
  Ring& ring = *Unwrap<RingHandle>(info).object;
  Taken taken;
  Status status = TakeAbout(info, ring, &taken);
  if (status == Status::kOk) status = ring.Verify(taken);
  return Code(info.Env(), status);
}

// ringBuffer(ring): ArrayBuffer over the circular buffer. It keeps the mapping alive. To be called once per handle: one
// address must not back two ArrayBuffers.
Napi::Value Buffer(const Napi::CallbackInfo& info) {
  Ring& ring = *Unwrap<RingHandle>(info).object;
  auto* keep = new std::shared_ptr<Segment>(ring.segment());
  return Napi::ArrayBuffer::New(
      info.Env(), ring.buffer(), ring.capacity(),
      [](Napi::Env, void*, std::shared_ptr<Segment>* held) { delete held; }, keep);
}

Napi::Value Ack(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), Unwrap<RingHandle>(info).object->Ack(TakenFrom(info)));
}

Napi::Value Return(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), Unwrap<RingHandle>(info).object->Return(TakenFrom(info)));
}

// ringWaitData(ring, milliseconds): Promise<status>
Napi::Value WaitData(const Napi::CallbackInfo& info) {
  RingHandle& handle = Unwrap<RingHandle>(info);
  return handle.data.Run(info.Env(), [ring = handle.object.get(), nanos = Nanos(info, 1)] {
    return static_cast<int>(ring->WaitData(nanos));
  });
}

// ringWaitSpace(ring, bytes, milliseconds): Promise<status>
Napi::Value WaitSpace(const Napi::CallbackInfo& info) {
  RingHandle& handle = Unwrap<RingHandle>(info);
  return handle.space.Run(info.Env(), [ring = handle.object.get(), bytes = Size(info, 1), nanos = Nanos(info, 2)] {
    return static_cast<int>(ring->WaitSpace(bytes, nanos));
  });
}

void Close(const Napi::CallbackInfo& info) { Unwrap<RingHandle>(info).object->Close(); }

Napi::Value Reclaim(const Napi::CallbackInfo& info) {
  return Code(info.Env(), Unwrap<RingHandle>(info).object->Reclaim());
}

// Ends this handle; the ring goes on.
void Detach(const Napi::CallbackInfo& info) {
  RingHandle& handle = Unwrap<RingHandle>(info);
  handle.data.Stop(info.Env(), static_cast<int>(Status::kCancelled));
  handle.space.Stop(info.Env(), static_cast<int>(Status::kCancelled));
  handle.object.reset();
}

Napi::Value Stats(const Napi::CallbackInfo& info) {
  RingStats stats;
  const Status status = Unwrap<RingHandle>(info).object->Stats(&stats);
  if (status != Status::kOk) return Code(info.Env(), status);
  Napi::Object out = Napi::Object::New(info.Env());
  const auto set = [&](const char* name, uint64_t value) { out.Set(name, static_cast<double>(value)); };
  set("capacity", stats.capacity);
  set("usedBytes", stats.used);
  set("pending", stats.pending);
  set("taken", stats.taken);
  set("reserved", stats.reserved);
  set("records", stats.records);
  set("bytes", stats.bytes);
  set("acked", stats.acked);
  set("pushWaits", stats.push_waits);
  set("popWaits", stats.pop_waits);
  set("reclaimed", stats.reclaimed);
  set("redelivered", stats.redelivered);
  set("corrupt", stats.corrupt);
  set("lockRecoveries", stats.recoveries);
  out.Set("closed", stats.closed);
  return out;
}

Napi::Value MaxRecord(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(Unwrap<RingHandle>(info).object->max_record()));
}

Napi::Value LockHolder(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), Unwrap<RingHandle>(info).object->lock_holder());
}

}  // namespace

void RegisterRing(Napi::Env env, Napi::Object exports) {
  exports.Set("ringCreate", Napi::Function::New(env, Create));
  exports.Set("ringOpen", Napi::Function::New(env, Open));
  exports.Set("ringTryPush", Napi::Function::New(env, TryPush));
  exports.Set("ringTryTake", Napi::Function::New(env, TryTake));
  exports.Set("ringTryTakeInPlace", Napi::Function::New(env, TryTakeInPlace));
  exports.Set("ringBuffer", Napi::Function::New(env, Buffer));
  exports.Set("ringAck", Napi::Function::New(env, Ack));
  exports.Set("ringReturn", Napi::Function::New(env, Return));
  exports.Set("ringWaitData", Napi::Function::New(env, WaitData));
  exports.Set("ringWaitSpace", Napi::Function::New(env, WaitSpace));
  exports.Set("ringClose", Napi::Function::New(env, Close));
  exports.Set("ringReclaim", Napi::Function::New(env, Reclaim));
  exports.Set("ringDetach", Napi::Function::New(env, Detach));
  exports.Set("ringStats", Napi::Function::New(env, Stats));
  exports.Set("ringMaxRecord", Napi::Function::New(env, MaxRecord));
  exports.Set("ringLockHolder", Napi::Function::New(env, LockHolder));
}

}  // namespace agentrl::shm
