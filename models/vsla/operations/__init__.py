"""The operations that only VSLA uses, one file each: formula, forward and backward pass together."""
