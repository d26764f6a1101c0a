"""From text to words: Unicode, splitting into words, and texts in chunks. Nothing here depends on learned tokens."""
