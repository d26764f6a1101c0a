"""Compiled loops on plain arrays; no kernel knows what a Tensor is.

`jit` compiles them, `threads` shares rows among threads, `cpu` describes the processor. The rooms build on each other
in this order: codegen (loops written as LLVM instructions), rowwise (each row by itself), gemm (matrix products),
attention, decoding (the pass over one token). Loops that only one family of models uses are in its own folder, except
for the steps of decoding, because one compiled loop carries all of them out."""
