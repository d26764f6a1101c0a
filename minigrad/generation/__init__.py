"""Generating text: from logits to the next token, and on to a stream of text."""
