"""The different words of a text with their counts, in arrays: all that training needs of the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class WordCounts:
    """Different words, and how often each occurs."""

    word_bytes: NDArray[np.uint8]  # the words in UTF-8, one after the other
    lengths: NDArray[np.int64]  # (words,), in bytes
    counts: NDArray[np.int64]  # (words,)

    @classmethod
    def of(cls, words: Mapping[bytes, int]) -> WordCounts:
        """Convert a mapping from words to counts into arrays."""
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        counts = np.fromiter(words.values(), np.int64, len(words))
        return cls(np.frombuffer(b"".join(words), np.uint8), lengths, counts)

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Yield each word with its count.

        >>> dict(WordCounts.of({b"to": 2, b" be": 1}).items())
        {b'to': 2, b' be': 1}
        """
        text, start = self.word_bytes.tobytes(), 0
        for length, count in zip(self.lengths.tolist(), self.counts.tolist(), strict=True):
            yield text[start : start + length], count
            start += length
