"""The operating system: processors and memory, the cache folder, atomic files, signals and the terminal.

Only the standard library is imported, because `hardware` must run before NumPy loads."""
