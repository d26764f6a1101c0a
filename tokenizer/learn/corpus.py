"""All different words as one array of tokens, which merges change in place.

The words are stored one after the other, one byte per *position*, with a border between words. A token of n bytes takes
n positions and stands at the first and the last of them. So no links to its neighbours are needed: the token before
ends one position to the left, and the token after begins n positions to the right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer.errors import TokenizerError
from tokenizer.learn.word_counts import WordCounts

BORDER, INSIDE = -1, -2  # a position between words; a position inside a token, neither its first nor its last


class Corpus(NamedTuple):
    """Words of two bytes or more, with borders around them."""

    tokens: NDArray[np.int32]  # for each position, its token, BORDER or INSIDE
    words: NDArray[np.int32]  # for each position, the index of its word
    counts: NDArray[np.int64]  # for each word, how often it occurs


def lay_out(words: WordCounts) -> Corpus:
    """Return the corpus of the words of two bytes or more, each byte a token, with BORDER between words.

    Raises TokenizerError for more than 500 million bytes.

    >>> lay_out(WordCounts.of({b"ab": 7, b"c": 9})).tokens.tolist()
    [-1, 97, 98, -1]
    """
    useful = words.lengths >= 2
    word_bytes = words.word_bytes[np.repeat(useful, words.lengths)]
    lengths, counts = words.lengths[useful], words.counts[useful]
    if len(word_bytes) + len(lengths) >= 2**31 // 4:
        raise TokenizerError(
            f"the different words have {len(word_bytes):,} bytes together, expected at most 500 million."
        )
    owners = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths + 1)
    tokens = np.full(len(owners) + 1, BORDER, np.int32)
    ends = (lengths + 1).cumsum()
    is_byte = np.ones(len(tokens), np.bool_)
    is_byte[0] = False
    is_byte[ends] = False
    tokens[is_byte] = word_bytes
    # The border before the first word shifts every position by one.
    return Corpus(tokens, np.concatenate([np.zeros(1, np.int32), owners]), counts)
