"""Text from tokens that arrive one by one, and tokens from text that arrives in parts."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

from tokenizer.text.chunks import last_border


class StreamDecoder:
    """Decodes token ids as they arrive; the results, joined, are the text of all ids.

    With byte fallback the text differs from that of `decode` in two ways: the space that encoding puts before a text
    stays, and a row of bytes that is not UTF-8 becomes U+FFFD as in `bytes.decode`, where `decode` returns one U+FFFD
    for each byte.
    A character can be spread over several tokens. Its first bytes are kept until the character is complete, so a screen
    never shows a part of one.
    """

    def __init__(self, decode_bytes: Callable[[list[int]], bytes]) -> None:
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
    "none" or "gpt4o", a pattern of your own, or a tokenizer that changes a text, splits tokens off it or looks up whole
    words, no border is certain (`may_cut` is false), and everything is kept until `flush`. `specials` are the names of
    the special tokens that the text may have, in which no cut is made.
    """

    def __init__(self, encode: Callable[[str], list[int]], specials: Iterable[str], *, may_cut: bool) -> None:
        self._encode, self._specials, self._may_cut = encode, tuple(specials), may_cut
        self._reach = max([1, *(len(name) - 1 for name in self._specials)])
        self._kept: list[str] = []  # since the last border
        self._tail = ""  # the last characters so far: a border may be right after them, and a name may begin in them

    def push(self, part: str) -> list[int]:
        """Return the tokens that this part completes, often none."""
        self._kept.append(part)
        recent, start = self._tail + part, max(len(self._tail) - 1, 0)
        border = last_border(recent, start, len(recent), self._specials) if self._may_cut else start
        self._tail = recent[-self._reach :]
        if border == start:
            return []
        text = "".join(self._kept)
        border += len(text) - len(recent)
        self._kept = [text[border:]]
        return self._encode(text[:border])

    def flush(self) -> list[int]:
        """Return the tokens of the text that is left and start again."""
        text, self._kept, self._tail = "".join(self._kept), [], ""
        return self._encode(text)
