"""The exception of this package."""

from __future__ import annotations


class TokenizerError(ValueError):
    """A text, a token id, an option or a file cannot be used; the message names it and what would work instead."""

    is_bad_input = True  # a program that ends because of it exits with 2
