"""Tokens on disk, and the batches of each step that are read from them."""
