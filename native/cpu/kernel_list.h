// Every kernel, one line: KERNEL(name, arguments struct of kernels.h). The table of an instruction set, its
// declarations and the struct `Kernels` are all made from this list.
KERNEL(add, AddArgs)
KERNEL(swiglu, SwigluArgs)
KERNEL(swigluBackward, SwigluBackwardArgs)
