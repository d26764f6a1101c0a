"""Attention: tile by tile, to chosen keys, and to a few keys of each row."""
