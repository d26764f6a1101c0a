"""The operations that only Wiola uses, one file each: formula, forward and backward pass together."""
