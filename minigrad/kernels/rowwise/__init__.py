"""Loops in which every row, or every element, is computed by itself."""
