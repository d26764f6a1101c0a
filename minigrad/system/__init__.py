"""The computer below Python: processors and memory, the cache folder, files written whole, signals and the terminal.

Only the standard library is imported, because `hardware` must run before NumPy loads."""
