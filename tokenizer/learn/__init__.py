"""From texts to merges: words are counted, and the most frequent pair of tokens is merged again and again.

The merges are returned as pairs of numbers; the tokenizer's class makes a vocabulary of them.
"""
