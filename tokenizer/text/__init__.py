"""From text to words: Unicode, splitting into words, and texts in chunks.

Nothing here knows which tokens a tokenizer has learned.
"""
