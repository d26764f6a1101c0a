"""Web pages of one file: the frame with its colours for light and dark, line charts, and pictures of numbers."""
