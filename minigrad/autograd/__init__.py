"""Reverse-mode automatic differentiation: tensors, the recorded graph, and the walk that turns it into gradients."""
