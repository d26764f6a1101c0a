"""From text to words: Unicode, splitting into words, and texts in chunks.

Nothing here depends on the tokens that a tokenizer has learned.
"""
