"""The exception of this package, and what its messages suggest."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TokenizerError(ValueError):
    """A text, a token id, an option or a file cannot be used; the message names it and what would work instead."""

    is_bad_input = True  # a program that ends because of it exits with 2


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the known name nearest to another one, if one is near."""
    nearest = get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else "."
