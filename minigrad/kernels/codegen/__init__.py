"""Innermost loops that the compiler does not find by itself, written as LLVM instructions."""
