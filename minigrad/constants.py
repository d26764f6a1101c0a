"""Numbers that several packages have to agree on."""

IGNORE = -100
"""A target with this value is not predicted: it counts in no loss (PyTorch's and transformers' convention)."""

LARGEST_DECAY = 0.9999999
"""The largest decay of a running mean: float32 may round a larger one to 1, and then no new value would count."""
