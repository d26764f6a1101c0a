"""Data structures in plain arrays for the kernels of learn/ and encode/: hash tables and a heap."""
