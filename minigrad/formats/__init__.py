"""File formats of weights and settings: arrays and dictionaries in, arrays and dictionaries out."""
