"""Texts as kernels read them: one array of UTF-8 bytes, with stops that no word crosses.

For the splits in word_rules.RULES, the kernels find the words themselves. For any other split the words are found here,
with its regular expression, and each word ends at a stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer.text.split import compiled, words_of
from tokenizer.text.unicode import encode_utf8
from tokenizer.text.word_rules import ONE_WORD, RULES, Bytes, character_classes


class Layout(NamedTuple):
    """Several texts in one array."""

    text: Bytes  # the bytes of all texts, one after the other
    stops: NDArray[np.int64]  # positions in `text`, ascending; no word crosses one
    num_stops: NDArray[np.int64]  # for each text, the number of stops up to its end


class Scanner:
    """Splits text into words by a split (its name or a pattern); raises TokenizerError for one that is unknown."""

    def __init__(self, split: str) -> None:
        self.rule = RULES.get(split, ONE_WORD)
        self.classes = character_classes()
        self._pattern = None if split in RULES else compiled(split)

    def lay_out(self, texts: Sequence[str]) -> Layout:
        """Write texts into one array; raises TokenizerError for a lone surrogate."""
        parts, num_stops = list(texts), np.arange(1, len(texts) + 1)
        if self._pattern is not None:
            words = [words_of(text, self._pattern) for text in texts]
            parts, num_stops = [word for found in words for word in found], np.cumsum([len(found) for found in words])
        encoded = [encode_utf8(part) for part in parts]
        stops = np.fromiter(accumulate(map(len, encoded)), np.int64, len(encoded))
        return Layout(np.frombuffer(bytearray().join(encoded), np.uint8), stops, num_stops.astype(np.int64))
