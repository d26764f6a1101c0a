"""The folder of a run: its place, its record, its metrics, and the checkpoints from which it continues."""
