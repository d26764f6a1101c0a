r"""Splitting text into words, before any bytes are merged.

No token crosses the border between two words. Without this rule `dog.`, `dog!` and `dog?` would each become a token,
and a letter could merge with the digit after it. The words joined are exactly the text: no character is lost.

Source of the pattern: Radford et al. (2019), section 2.2, and GPT-2's released code. `\p{L}` is any letter of any
script, `\p{N}` any number. A word includes the space before it, so ` the` is one token in the middle of a sentence.

Kernels read texts as one array of UTF-8 bytes, with stops that no word crosses. For the splits in word_rules.RULES, the
kernels find the words themselves. For any other split the words are found here, with its regular expression, and each
word ends at a stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from tokenizer.errors import TokenizerError, did_you_mean
from tokenizer.text.unicode import encode_utf8
from tokenizer.text.word_rules import ONE_WORD, RULES, Bytes, character_classes

SPLITS = {
    # it's -> it 's; then runs of letters, of numbers, of other characters; of a run of white space, the last character
    # belongs to the word after it.
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    # As gpt2, but each digit is a word, as in SmolLM2: a model reads a number digit by digit.
    "digits": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+",
    # cl100k, also Llama 3's: 'S is split off like 's; any character may precede the letters of a word, as in (word;
    # numbers are split into groups of three from the left; line ends belong to the punctuation or the white space
    # before them.
    "gpt4": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    # As gpt4, but each digit is a word.
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    # o200k: as gpt4, but a capital letter begins a new word, as in camelCase, and a word includes its 's.
    "gpt4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    # The text is one word: a token may cross any border.
    "none": r"(?s:.+)",
}
"""The known splits: from a name to the pattern whose consecutive matches are the words of a text."""


def pattern_of(split: str) -> str:
    r"""Return the pattern of a split, given its name; a pattern is returned unchanged.

    Raises TokenizerError for an unknown name.

    >>> pattern_of("none"), pattern_of(r"\w+|\W+")
    ('(?s:.+)', '\\w+|\\W+')
    """
    if split in SPLITS:
        return SPLITS[split]
    if regex.fullmatch(r"[\w-]*", str(split)):  # a misspelled name: such a pattern would match only itself
        expected = f"expected one of {', '.join(SPLITS)}, or a regular expression"
        raise TokenizerError(f"unknown split {split!r}: {expected}{did_you_mean(split, SPLITS)}")
    return split


def compiled(split: str) -> Any:
    """Return the compiled pattern of a split; raises TokenizerError for an unknown name or an invalid pattern.

    >>> compiled("gpt2").findall("We'll  meet at 10:45!")
    ['We', "'ll", ' ', ' meet', ' at', ' 10', ':', '45', '!']
    """
    try:
        return regex.compile(pattern_of(split))
    except regex.error as error:
        raise TokenizerError(f"the split {split!r} is not a regular expression: {error}.") from error


def words_of(text: str, pattern: Any) -> list[str]:
    r"""Return the words of a text; the text between two matches is a word too, so no character is lost.

    >>> words_of("to be, or", compiled(r"\w+ ?"))
    ['to ', 'be', ', ', 'or']
    """
    words, end = [], 0
    for match in pattern.finditer(text):
        words += [text[end : match.start()], match.group()]
        end = match.end()
    return [word for word in [*words, text[end:]] if word]


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
