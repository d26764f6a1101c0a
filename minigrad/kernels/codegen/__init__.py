"""Innermost loops that the compiler does not find by itself, written as LLVM instructions.

A *word*, here and in `minigrad.kernels.gemm`, is the unit of a packed factor of a matrix product. It has 32 bits and
holds one float32, or two bfloat16 of neighbouring steps of the sum, the first in the lower half.
"""
