"""From a vocabulary to files and back, in the formats of other programs."""
