"""The loops of Wiola's operations, on plain arrays."""
