"""From texts to merges: words are counted, and the most frequent pair of tokens is merged again and again."""
