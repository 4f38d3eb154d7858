// Node-API surface of the weight board and of the shared counters.
#include "bindings.h"
#include "board.h"
#include "counters.h"

namespace agentrl::shm {
namespace {

struct BoardHandle {
  BoardHandle(Napi::Env env, std::unique_ptr<Board> board)
      : object(std::move(board)), published(env, "agentrl board: version", [this] { object->Cancel(); }) {}
  std::unique_ptr<Board> object;
  Waiter published;
};

struct CountersHandle {
  CountersHandle(Napi::Env env, std::unique_ptr<Counters> counters)
      : object(std::move(counters)), changed(env, "agentrl counters", [this] { object->Cancel(); }) {}
  std::unique_ptr<Counters> object;
  Waiter changed;
};

Board& BoardOf(const Napi::CallbackInfo& info) { return *Unwrap<BoardHandle>(info).object; }

std::string Hex(uint64_t value) {
  char text[17];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

Napi::Value BoardCreate(const Napi::CallbackInfo& info) {
  Error error;
  auto board = Board::Create(Text(info, 0), Size(info, 1), Size(info, 2), &error);
  if (board == nullptr) throw ToNapi(info.Env(), error);
  return Wrap(info.Env(), std::make_unique<BoardHandle>(info.Env(), std::move(board)));
}

Napi::Value BoardOpen(const Napi::CallbackInfo& info) {
  Error error;
  auto board = Board::Open(Text(info, 0), &error);
  if (board == nullptr) throw ToNapi(info.Env(), error);
  return Wrap(info.Env(), std::make_unique<BoardHandle>(info.Env(), std::move(board)));
}

Napi::Value BoardShape(const Napi::CallbackInfo& info) {
  Napi::Object out = Napi::Object::New(info.Env());
  out.Set("slots", static_cast<double>(BoardOf(info).slots()));
  out.Set("bytes", static_cast<double>(BoardOf(info).bytes()));
  return out;
}

// boardData(board, slot): ArrayBuffer over the slot itself. It keeps the mapping alive, also after boardDetach. To be
// called once per slot and handle: one address must not back two ArrayBuffers.
Napi::Value BoardData(const Napi::CallbackInfo& info) {
  Board& board = BoardOf(info);
  const size_t slot = Size(info, 1);
  if (slot >= board.slots()) throw Napi::RangeError::New(info.Env(), "no such slot");
  auto* keep = new std::shared_ptr<Segment>(board.segment());
  return Napi::ArrayBuffer::New(
      info.Env(), board.SlotData(slot), board.bytes(),
      [](Napi::Env, void*, std::shared_ptr<Segment>* held) { delete held; }, keep);
}

Napi::Value BoardBeginWrite(const Napi::CallbackInfo& info) {
  Error error;
  const int slot = BoardOf(info).BeginWrite(&error);
  if (slot < 0) throw ToNapi(info.Env(), error);
  return Napi::Number::New(info.Env(), slot);
}

// boardPublish(board, version, checksum: 16 hexadecimal digits)
void BoardPublish(const Napi::CallbackInfo& info) {
  Error error;
  const uint64_t checksum = strtoull(Text(info, 2).c_str(), nullptr, 16);
  if (!BoardOf(info).Publish(static_cast<int64_t>(Number(info, 1)), checksum, &error)) throw ToNapi(info.Env(), error);
}

Napi::Value BoardAbort(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), BoardOf(info).Abort());
}

Napi::Value BoardLatest(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(BoardOf(info).Latest()));
}

// boardAcquire(board, version or -1): {version, slot, place, serial, checksum} | null
Napi::Value BoardAcquire(const Napi::CallbackInfo& info) {
  Error error;
  Hold hold;
  if (!BoardOf(info).Acquire(static_cast<int64_t>(Number(info, 1)), &hold, &error)) {
    if (!error.what.empty()) throw ToNapi(info.Env(), error);
    return info.Env().Null();
  }
  Napi::Object out = Napi::Object::New(info.Env());
  out.Set("version", static_cast<double>(hold.version));
  out.Set("slot", hold.slot);
  out.Set("place", hold.place);
  out.Set("serial", static_cast<double>(hold.serial));
  out.Set("checksum", Hex(hold.checksum));
  return out;
}

// boardRelease(board, place, serial)
Napi::Value BoardRelease(const Napi::CallbackInfo& info) {
  Hold hold;
  hold.place = static_cast<uint32_t>(Size(info, 1));
  hold.serial = Size(info, 2);
  return Napi::Boolean::New(info.Env(), BoardOf(info).Release(hold));
}

Napi::Value BoardVersions(const Napi::CallbackInfo& info) {
  Error error;
  std::vector<BoardVersion> versions;
  if (!BoardOf(info).Versions(&versions, &error)) throw ToNapi(info.Env(), error);
  Napi::Array out = Napi::Array::New(info.Env(), versions.size());
  for (size_t i = 0; i < versions.size(); ++i) {
    Napi::Object one = Napi::Object::New(info.Env());
    one.Set("version", static_cast<double>(versions[i].version));
    one.Set("slot", versions[i].slot);
    Napi::Array readers = Napi::Array::New(info.Env(), versions[i].readers.size());
    for (size_t j = 0; j < versions[i].readers.size(); ++j) {
      readers.Set(static_cast<uint32_t>(j), versions[i].readers[j]);
    }
    one.Set("readers", readers);
    out.Set(static_cast<uint32_t>(i), one);
  }
  return out;
}

// boardWait(board, version, milliseconds): Promise<1 reached | 0 not>
Napi::Value BoardWait(const Napi::CallbackInfo& info) {
  BoardHandle& handle = Unwrap<BoardHandle>(info);
  return handle.published.Run(info.Env(), [board = handle.object.get(), version = static_cast<int64_t>(Number(info, 1)),
                                           nanos = Nanos(info, 2)] { return board->WaitFor(version, nanos) ? 1 : 0; });
}

void BoardDetach(const Napi::CallbackInfo& info) {
  BoardHandle& handle = Unwrap<BoardHandle>(info);
  handle.published.Stop(info.Env(), 0);
  handle.object.reset();
}

size_t Index(const Napi::CallbackInfo& info) {
  const size_t index = Size(info, 1);
  if (index >= kCounters) throw Napi::RangeError::New(info.Env(), "no such counter: " + std::to_string(index));
  return index;
}

Napi::Value CountersCreate(const Napi::CallbackInfo& info) {
  Error error;
  auto counters = Counters::Create(Text(info, 0), &error);
  if (counters == nullptr) throw ToNapi(info.Env(), error);
  return Wrap(info.Env(), std::make_unique<CountersHandle>(info.Env(), std::move(counters)));
}

Napi::Value CountersOpen(const Napi::CallbackInfo& info) {
  Error error;
  auto counters = Counters::Open(Text(info, 0), &error);
  if (counters == nullptr) throw ToNapi(info.Env(), error);
  return Wrap(info.Env(), std::make_unique<CountersHandle>(info.Env(), std::move(counters)));
}

Napi::Value CountersLoad(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(Unwrap<CountersHandle>(info).object->Load(Index(info))));
}

void CountersStore(const Napi::CallbackInfo& info) {
  Unwrap<CountersHandle>(info).object->Store(Index(info), static_cast<int64_t>(Number(info, 2)));
}

Napi::Value CountersAdd(const Napi::CallbackInfo& info) {
  const int64_t sum = Unwrap<CountersHandle>(info).object->Add(Index(info), static_cast<int64_t>(Number(info, 2)));
  return Napi::Number::New(info.Env(), static_cast<double>(sum));
}

Napi::Value CountersChanges(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), Unwrap<CountersHandle>(info).object->Changes());
}

// countersWait(counters, seen, milliseconds): Promise<1 changed | 0 not>
Napi::Value CountersWait(const Napi::CallbackInfo& info) {
  CountersHandle& handle = Unwrap<CountersHandle>(info);
  return handle.changed.Run(info.Env(), [counters = handle.object.get(), seen = static_cast<uint32_t>(Number(info, 1)),
                                         nanos = Nanos(info, 2)] { return counters->WaitChange(seen, nanos) ? 1 : 0; });
}

void CountersDetach(const Napi::CallbackInfo& info) {
  CountersHandle& handle = Unwrap<CountersHandle>(info);
  handle.changed.Stop(info.Env(), 0);
  handle.object.reset();
}

}  // namespace

void RegisterBoard(Napi::Env env, Napi::Object exports) {
  exports.Set("boardCreate", Napi::Function::New(env, BoardCreate));
  exports.Set("boardOpen", Napi::Function::New(env, BoardOpen));
  exports.Set("boardShape", Napi::Function::New(env, BoardShape));
  exports.Set("boardData", Napi::Function::New(env, BoardData));
  exports.Set("boardBeginWrite", Napi::Function::New(env, BoardBeginWrite));
  exports.Set("boardPublish", Napi::Function::New(env, BoardPublish));
  exports.Set("boardAbort", Napi::Function::New(env, BoardAbort));
  exports.Set("boardLatest", Napi::Function::New(env, BoardLatest));
  exports.Set("boardAcquire", Napi::Function::New(env, BoardAcquire));
  exports.Set("boardRelease", Napi::Function::New(env, BoardRelease));
  exports.Set("boardVersions", Napi::Function::New(env, BoardVersions));
  exports.Set("boardWait", Napi::Function::New(env, BoardWait));
  exports.Set("boardDetach", Napi::Function::New(env, BoardDetach));
}

void RegisterCounters(Napi::Env env, Napi::Object exports) {
  exports.Set("countersCreate", Napi::Function::New(env, CountersCreate));
  exports.Set("countersOpen", Napi::Function::New(env, CountersOpen));
  exports.Set("countersLoad", Napi::Function::New(env, CountersLoad));
  exports.Set("countersStore", Napi::Function::New(env, CountersStore));
  exports.Set("countersAdd", Napi::Function::New(env, CountersAdd));
  exports.Set("countersChanges", Napi::Function::New(env, CountersChanges));
  exports.Set("countersWait", Napi::Function::New(env, CountersWait));
  exports.Set("countersDetach", Napi::Function::New(env, CountersDetach));
}

}  // namespace agentrl::shm
