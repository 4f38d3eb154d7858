// The table of one instruction set; compiled once for each.
#include "kernels.h"

namespace agentrl::AGENTRL_ISA {

#define AGENTRL_TEXT(x) #x
#define AGENTRL_NAME(x) AGENTRL_TEXT(x)

extern const Kernels kTable;
const Kernels kTable = {
    AGENTRL_NAME(AGENTRL_ISA),
#define KERNEL(name, Args) name,
#include "kernel_list.h"
#undef KERNEL
};

}  // namespace agentrl::AGENTRL_ISA
