"""The one error of this package."""

from __future__ import annotations


class TokenizerError(ValueError):
    """A text, a token id, an option or a file cannot be used; the message says which, and the way out."""

    is_bad_input = True  # for a program that ends with an exit code
