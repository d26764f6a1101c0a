"""A settings dataclass becomes a command line, and an error becomes one paragraph and an exit code."""
