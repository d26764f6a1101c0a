"""Spaces as a printable character: how SentencePiece, and the tokenizers that come from it, write a text.

    "Hello world" -> "▁Hello▁world"

Every space becomes U+2581, and one more stands before the text, so that a word has the same token at the beginning of a
text as in the middle. A U+2581 in the text itself becomes a space, too: it is the one character that is lost.

Source: Kudo and Richardson, "SentencePiece" (2018), section 3.2.
"""

from __future__ import annotations

MARK = "\u2581"


def mark_spaces(text: str) -> str:
    """Return a text with its spaces marked, and one before it; an empty text stays empty.

    >>> mark_spaces("to  be")
    '▁to▁▁be'
    """
    return (MARK + text).replace(" ", MARK) if text else ""


def unmark_spaces(text: str) -> str:
    """Return a text, or a part of one, with its marks as spaces; the one before the text remains.

    >>> unmark_spaces("▁to▁be")
    ' to be'
    """
    return text.replace(MARK, " ")
