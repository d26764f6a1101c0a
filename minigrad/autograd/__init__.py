"""Reverse-mode automatic differentiation: tensors, the recorded graph, and the backward pass over it."""
