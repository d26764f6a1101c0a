"""Loops in which a row depends on the rows before it, and attention of rows to keys of their own."""
