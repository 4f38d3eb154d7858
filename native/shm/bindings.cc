#include <napi.h>

namespace agentrl {

void RegisterShm(Napi::Env, Napi::Object) {}

}  // namespace agentrl
