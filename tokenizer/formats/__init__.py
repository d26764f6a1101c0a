"""From a vocabulary to files and back, in the formats of other programs.

No other room depends on what the files look like.
"""
