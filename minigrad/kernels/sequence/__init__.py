"""Loops in which a row depends on the rows before it."""
