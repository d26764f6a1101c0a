"""Data structures in plain arrays for kernels: hash tables and a heap.

learn/ and encode/ both use them; nothing here depends on texts, tokens or merges.
"""
