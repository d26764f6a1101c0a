"""Attention tile by tile, forward and backward."""
