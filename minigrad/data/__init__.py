"""Text to train on: corpora, their tokens on disk, and the batches of each step."""
