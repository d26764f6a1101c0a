"""Compiled loops on plain arrays; no kernel knows what a Tensor is.

`jit` compiles them, `threads` shares rows among threads, `cpu` says what the processor can do. The rooms build on each
other in this order: codegen (loops written as LLVM instructions), rowwise (one row at a time), gemm (matrix products),
attention, sequence (one sequence at a time)."""
