"""Tensors of variable shape: packed sequences, zero-extension, and the algebra on it (docs/variable_shapes.md)."""

from minigrad.variable.equivalence import equivalent, shrink
from minigrad.variable.kronecker import kronecker
from minigrad.variable.promotion import add, multiply, promote, subtract
from minigrad.variable.stacking import pyramid, window_stack
from minigrad.variable.var_tensor import VarTensor

__all__ = [
    "VarTensor",
    "add",
    "equivalent",
    "kronecker",
    "multiply",
    "promote",
    "pyramid",
    "shrink",
    "subtract",
    "window_stack",
]
