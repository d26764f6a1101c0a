"""Tensors of variable shape: packed sequences, zero-extension, and the algebra on it (docs/variable_shapes.md).

A study beside VSLA: its library of 2025 claims this algebra. No model here uses it.
"""

from models.vsla.variable.extension import (
    add,
    equivalent,
    multiply,
    promote,
    pyramid,
    shrink,
    subtract,
    window_stack,
    zero_extend,
    zero_extended_stack,
)
from models.vsla.variable.products import convolve, kronecker, outer
from models.vsla.variable.resizing import resize_sequences
from models.vsla.variable.var_tensor import VarTensor

__all__ = ["VarTensor", "add", "convolve", "equivalent", "kronecker", "multiply", "outer", "promote", "pyramid"]
__all__ += ["resize_sequences", "shrink", "subtract", "window_stack", "zero_extend", "zero_extended_stack"]
