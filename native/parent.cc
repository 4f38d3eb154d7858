// A process that ends when its parent is gone, also while its JavaScript is in an endless loop: that the IPC channel has
// closed is seen by the event loop alone.
#include <napi.h>

#include <chrono>
#include <thread>

#include <unistd.h>

namespace agentrl {
namespace {

constexpr auto kLook = std::chrono::milliseconds(500);
constexpr int kOrphaned = 3;

// endWithParent(graceMs): returns at once. The grace is for an orderly end, which the closed channel begins.
Napi::Value EndWithParent(const Napi::CallbackInfo& info) {
  static bool watching = false;
  if (watching) return info.Env().Undefined();
  watching = true;
  const auto grace = std::chrono::milliseconds(info[0].As<Napi::Number>().Int64Value());
  const pid_t parent = getppid();
  std::thread([parent, grace] {
    while (getppid() == parent) std::this_thread::sleep_for(kLook);
    std::this_thread::sleep_for(grace);
    _exit(kOrphaned);
  }).detach();
  return info.Env().Undefined();
}

}  // namespace

void RegisterParent(Napi::Env env, Napi::Object exports) {
  exports.Set("endWithParent", Napi::Function::New(env, EndWithParent));
}

}  // namespace agentrl
