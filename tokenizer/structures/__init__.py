"""Data structures in plain arrays, which kernels read and write: hash tables and a heap.

learn/ and encode/ both use them; nothing here knows of texts, tokens or merges.
"""
