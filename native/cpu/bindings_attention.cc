// Bindings of rmsNorm, rope and the attention operators; conventions as in bindings.cc.
#include "args.h"
#include "kernels.h"

namespace agentrl {

void defineAttention(napi_env, napi_value) {}

}  // namespace agentrl
