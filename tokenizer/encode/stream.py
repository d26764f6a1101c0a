"""Text from tokens that arrive one by one, and tokens from text that arrives in pieces."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from tokenizer.text.chunks import last_border


class StreamDecoder:
    """Turns token ids into text as they come; what it returns, joined, is what decoding all at once returns.

    A letter can be spread over several tokens. Its first bytes are held back until the letter is whole, so a
    screen never shows half of one.
    """

    def __init__(self, decode_bytes: Callable[[list[int]], bytes]) -> None:
        """Use `decode_bytes` to look up the bytes of an id."""
        self._decode_bytes = decode_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """Return the text that this token completes, often '' or more than one letter."""
        return self._decoder.decode(self._decode_bytes([token]))

    def flush(self) -> str:
        """Return what is still held back (a broken letter becomes U+FFFD) and start anew."""
        return self._decoder.decode(b"", final=True)


class StreamEncoder:
    """Turns text into token ids as it comes; what it returns, joined, is what encoding all at once returns.

    The last word may go on in the next piece. So the text behind the last border that is certain is held back. With the
    split "none", or a pattern of your own, no border is certain, and everything is held back until `flush`.
    """

    def __init__(self, encode: Callable[[str], list[int]], *, may_cut: bool) -> None:
        """Use `encode` for the text up to a border of lots.py, if the text may be cut there."""
        self._encode = encode
        self._may_cut = may_cut
        self._held: list[str] = []
        self._last = ""  # the last letter that is held back: a border may lie right behind it

    def push(self, piece: str) -> list[int]:
        """Return the tokens that this piece completes, often none."""
        self._held.append(piece)
        recent = self._last + piece
        border = last_border(recent, 0, len(recent)) if self._may_cut else 0
        self._last = recent[-1:]
        if border == 0:
            return []
        text = "".join(self._held)
        border += len(text) - len(recent)
        self._held = [text[border:]]
        return self._encode(text[:border])

    def flush(self) -> list[int]:
        """Return the tokens of what is still held back and start anew."""
        text = "".join(self._held)
        self._held, self._last = [], ""
        return self._encode(text)
