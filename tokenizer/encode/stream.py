"""Text from tokens that arrive one by one, and tokens from text that arrives in parts."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

from tokenizer.text.chunks import Cutter


class StreamDecoder:
    """Decodes token ids as they arrive; the results, joined, are the text of all ids.

    A character can be spread over several tokens. Its first bytes are kept until the character is complete, so a screen
    never shows a part of one.
    """

    def __init__(self, decode_bytes: Callable[[list[int]], bytes]) -> None:
        """Take the function that returns the bytes of ids."""
        self._decode_bytes = decode_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """Return the text that this token completes: often one or more characters, sometimes none."""
        return self._decoder.decode(self._decode_bytes([token]))

    def flush(self) -> str:
        """Return the text that is left (an incomplete character becomes U+FFFD) and start again."""
        return self._decoder.decode(b"", final=True)


class StreamEncoder:
    """Encodes text as it arrives; the results, joined, are the ids of the whole text.

    The last word may continue in the next part, so the text after the last certain border is kept. With the split
    "none", or a pattern of your own, no border is certain, and everything is kept until `flush`.
    """

    def __init__(self, encode: Callable[[str], list[int]], *, may_cut: bool, specials: Iterable[str] = ()) -> None:
        """Take the function that encodes a text, whether a text may be cut, and the special tokens that it may have."""
        self._encode = encode
        self._cutter = Cutter(specials, may_cut=may_cut)

    def push(self, part: str) -> list[int]:
        """Return the tokens that this part completes, often none."""
        complete = self._cutter.push(part)
        return self._encode(complete) if complete else []

    def flush(self) -> list[int]:
        """Return the tokens of the text that is left and start again."""
        return self._encode(self._cutter.flush())
