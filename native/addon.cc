// The Node-API surface: what each part of the addon exports is in its own bindings.cc.
#include <napi.h>

namespace agentrl {
void RegisterCpu(Napi::Env env, Napi::Object exports);
void RegisterShm(Napi::Env env, Napi::Object exports);
}  // namespace agentrl

static Napi::Object Init(Napi::Env env, Napi::Object exports) {
  agentrl::RegisterCpu(env, exports);
  agentrl::RegisterShm(env, exports);
  return exports;
}

NODE_API_MODULE(agentrl, Init)
