// Every kernel, one line: KERNEL(name, arguments struct of kernels.h). The table of an instruction set, its
// declarations and the struct `Kernels` are all made from this list.
KERNEL(matmul, MatmulArgs)
KERNEL(embedBackward, EmbedBackwardArgs)
KERNEL(headLogProb, HeadLogProbArgs)
KERNEL(headBackward, HeadBackwardArgs)
KERNEL(headSample, HeadSampleArgs)
KERNEL(adamw, AdamwArgs)
KERNEL(sumSquares, SumSquaresArgs)
KERNEL(add, AddArgs)
KERNEL(swiglu, SwigluArgs)
KERNEL(swigluBackward, SwigluBackwardArgs)
