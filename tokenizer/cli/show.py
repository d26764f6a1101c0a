"""The tokens of a text in a terminal: on coloured backgrounds, or with bars between them."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizer.bpe import Tokenizer

COLOURS = (151, 189, 223, 182, 159, 217)
"""Pale background colours of the terminal's 256, used in turn; the text on them is black."""

END_COLOUR = "\x1b[0m"


def readable(token: bytes) -> str:
    r"""Return the text of a token, with control characters, and bytes that are not UTF-8, as hexadecimal numbers.

    >>> readable(b" caf\xc3"), readable(b"\x1b\n")
    (' caf<c3>', '<1b>⏎\n')
    """
    parts = []
    for character in token.decode("utf-8", "surrogateescape"):
        if character == "\n":
            parts.append("⏎\n")
        elif "\udc80" <= character <= "\udcff":
            parts.append(f"<{ord(character) - 0xDC00:02x}>")
        else:
            is_visible = character.isprintable() or character == "\t"
            parts.append(character if is_visible else f"<{ord(character):02x}>")
    return "".join(parts)


def separated(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Return the tokens with bars between them, for output without colours.

    >>> from tokenizer import train
    >>> tok = train(["to be or not to be"] * 2, vocab_size=270)
    >>> separated(tok, tok.encode("to be or"))
    'to| be| or'
    """
    return "|".join(readable(tokenizer.decode_bytes([number])) for number in ids)


def coloured(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Return the tokens on alternating backgrounds, with the escape codes of a terminal."""
    parts = []
    for i, number in enumerate(ids):
        begin = f"\x1b[30;48;5;{COLOURS[i % len(COLOURS)]}m"
        # Some terminals continue a background colour to the end of the next line, so it ends before each line end.
        lines = readable(tokenizer.decode_bytes([number])).split("\n")
        parts.append("\n".join(f"{begin}{line}{END_COLOUR}" if line else "" for line in lines))
    return "".join(parts)
