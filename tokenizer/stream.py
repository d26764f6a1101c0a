"""Text from tokens that arrive one by one."""

from __future__ import annotations

import codecs
from collections.abc import Callable


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
