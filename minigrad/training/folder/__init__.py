"""The folder of a run: its place, its record, and the checkpoints from which it continues."""
