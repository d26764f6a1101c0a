"""From a vocabulary to files and back, in the formats of other programs.

No other room knows what the files look like.
"""
