"""Numbers that several packages have to agree on."""

IGNORE = -100
"""A target with this value is not predicted: it counts in no loss (PyTorch's and transformers' convention)."""
