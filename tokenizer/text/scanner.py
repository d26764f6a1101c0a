r"""Cutting text into words by hand: the same words as the patterns in split.py, some fifty times sooner.

A pattern is a small program that another program interprets letter by letter. The patterns of GPT-2 and GPT-4 ask
only four things of a letter: is it a letter, a number, white space, or something else. So one table of all of
Unicode answers, and each alternative of the pattern becomes a line or two of plain code. Whoever brings a pattern
of their own gets the `regex` library.

The table is made when first needed, from `regex` itself: both follow one version of Unicode, whichever is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise

import numpy as np
import regex
from numpy.typing import NDArray

from tokenizer.jit import kernel
from tokenizer.text.alphabet import utf8
from tokenizer.text.split import compiled, cut

Bytes = NDArray[np.uint8]
Classes = NDArray[np.uint8]  # (0x110000,), by code point

OTHER, LETTER, NUMBER, SPACE = range(4)
QUOTE, BLANK, LINE_FEED, RETURN = b"' \n\r"  # as numbers; the compiler takes its time over strings
S, T, M, D, L, R, V, E = b"stmdlrve"
WHOLE, GPT2, DIGITS, GPT4, QWEN2 = range(5)
RULES = {"none": WHOLE, "gpt2": GPT2, "digits": DIGITS, "gpt4": GPT4, "qwen2": QWEN2}
"""The splits that need no pattern."""


@cache
def classes() -> Classes:
    """Return the class of every code point, (0x110000,): LETTER, NUMBER, SPACE or OTHER."""
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    table = np.full(len(everything), OTHER, np.uint8)
    for kind, pattern in ((LETTER, r"\p{L}+"), (NUMBER, r"\p{N}+"), (SPACE, r"\s+")):
        for run in regex.finditer(pattern, everything):
            table[run.start() : run.end()] = kind
    return table


@kernel
def _letter(text: Bytes, i: int) -> tuple[int, int]:
    """Return the code point of the letter at i and its number of bytes; the text is known to be UTF-8."""
    first = int(text[i])
    if first < 0x80:
        return first, 1
    second = int(text[i + 1]) & 0x3F
    if first < 0xE0:
        return (first & 0x1F) << 6 | second, 2
    third = int(text[i + 2]) & 0x3F
    if first < 0xF0:
        return (first & 0x0F) << 12 | second << 6 | third, 3
    return (first & 0x07) << 18 | second << 12 | third << 6 | int(text[i + 3]) & 0x3F, 4


@kernel
def _class_at(text: Bytes, i: int, stop: int, kinds: Classes) -> int:
    return int(kinds[_letter(text, i)[0]]) if i < stop else -1


@kernel
def _run_end(text: Bytes, i: int, stop: int, kinds: Classes, kind: int, most: int) -> int:
    """Return where a run of one class ends, after `most` letters at the latest."""
    while i < stop and most > 0:
        code, length = _letter(text, i)
        if kinds[code] != kind:
            break
        i += length
        most -= 1
    return i


@kernel
def _contraction_end(text: Bytes, i: int, stop: int, any_case: bool) -> int:
    """Return the end of 's, 't, 're, 've, 'm, 'll or 'd at i, or i if there is none."""
    if text[i] != QUOTE or i + 1 == stop:
        return i
    # In ASCII, a capital letter differs from its small one in the bit 0x20.
    small = 0x20 if any_case else 0
    first = int(text[i + 1]) | small
    if first in (S, T, M, D):
        return i + 2
    if i + 2 == stop:
        return i
    second = int(text[i + 2]) | small
    if (first == L and second == L) or ((first in (R, V)) and second == E):
        return i + 3
    if any_case and text[i + 1] == 0xC5 and text[i + 2] == 0xBF:
        return i + 3  # the long s, U+017F: Unicode counts it as a small S
    return i


@kernel
def _space_end(text: Bytes, i: int, stop: int, kinds: Classes, lines: bool, digits: bool) -> int:
    r"""Return the end of a word of white space: `\s*[\r\n]+` if `lines`, then `\s+(?!\S)`, then `\s+`.

    With `digits`, the last white space is not left to a number behind it.
    """
    end, last, after_line = i, i, -1
    while end < stop:
        code, length = _letter(text, end)
        if kinds[code] != SPACE:
            break
        last = end
        end += length
        if code in (LINE_FEED, RETURN):
            after_line = end
    if lines and after_line > 0:
        return after_line
    if end == stop or last == i or (digits and _class_at(text, end, stop, kinds) == NUMBER):
        return end
    return last


@kernel
def _gpt2_end(text: Bytes, i: int, stop: int, kinds: Classes, digits: bool) -> int:
    end = _contraction_end(text, i, stop, False)
    if end > i:
        return end
    kind = _class_at(text, i, stop, kinds)
    if text[i] == BLANK:
        following = _class_at(text, i + 1, stop, kinds)
        if following >= 0 and following != SPACE and not (digits and following == NUMBER):
            return _run_end(text, i + 1, stop, kinds, following, stop)
    if kind == SPACE:
        return _space_end(text, i, stop, kinds, False, digits)
    return _run_end(text, i, stop, kinds, kind, 1 if digits and kind == NUMBER else stop)


@kernel
def _gpt4_end(text: Bytes, i: int, stop: int, kinds: Classes, longest_number: int) -> int:
    end = _contraction_end(text, i, stop, True)
    if end > i:
        return end
    code, length = _letter(text, i)
    kind = int(kinds[code])
    if kind == NUMBER:
        return _run_end(text, i, stop, kinds, NUMBER, longest_number)
    following = _class_at(text, i + length, stop, kinds)
    if kind == LETTER or (following == LETTER and code != LINE_FEED and code != RETURN):
        return _run_end(text, i + length, stop, kinds, LETTER, stop)
    if kind == OTHER or (following == OTHER and code == BLANK):
        end = _run_end(text, i + length, stop, kinds, OTHER, stop)
        while end < stop and (text[end] == LINE_FEED or text[end] == RETURN):
            end += 1
        return end
    return _space_end(text, i, stop, kinds, True, False)


@kernel
def word_end(text: Bytes, i: int, stop: int, rule: int, kinds: Classes) -> int:
    """Return the end of the word that begins at byte i of a text that ends at byte `stop`."""
    if rule in (GPT2, DIGITS):
        return _gpt2_end(text, i, stop, kinds, rule == DIGITS)
    if rule in (GPT4, QWEN2):
        return _gpt4_end(text, i, stop, kinds, 3 if rule == GPT4 else 1)
    return stop


@kernel
def _word_ends(text: Bytes, rule: int, kinds: Classes, ends: NDArray[np.int64]) -> int:
    """Write the end of each word and return the number of words."""
    num_words, i = 0, 0
    while i < len(text):
        i = word_end(text, i, len(text), rule, kinds)
        ends[num_words] = i
        num_words += 1
    return num_words


@dataclass(frozen=True)
class Layout:
    """Pieces of text as the kernels read them: no word goes beyond a stop."""

    text: Bytes  # all pieces, one behind the other
    stops: NDArray[np.int64]  # ascending
    last: NDArray[np.int64]  # per piece, the number of stops up to its end


class Scanner:
    """Cuts text the way that a split says."""

    def __init__(self, split: str) -> None:
        """Take the name of a split or a pattern; raises TokenizerError for an unknown name or a broken pattern."""
        self.rule = RULES.get(split, WHOLE)
        self.classes = classes()
        self._pattern = None if split in RULES else compiled(split)

    def lay_out(self, pieces: Sequence[str]) -> Layout:
        """Lay pieces out for the kernels; raises TokenizerError for a lone surrogate."""
        parts, last = list(pieces), np.arange(1, len(pieces) + 1)
        if self._pattern is not None:
            # The words of a pattern are found here, and each is a piece of its own to the kernels.
            words = [cut(self._pattern, piece) for piece in pieces]
            parts, last = [word for found in words for word in found], np.cumsum([len(found) for found in words])
        spelled = [utf8(part) for part in parts]
        stops = np.fromiter(accumulate(map(len, spelled)), np.int64, len(spelled))
        return Layout(np.frombuffer(bytearray().join(spelled), np.uint8), stops, last.astype(np.int64))

    def words(self, text: str) -> list[str]:
        """Return the words of a text.

        >>> Scanner("gpt4").words("We'LL meet at 12345!")
        ['We', "'LL", ' meet', ' at', ' ', '123', '45', '!']
        """
        if self._pattern is not None:
            return cut(self._pattern, text)
        spelled = bytearray(utf8(text))
        ends = np.empty(len(spelled), np.int64)
        num_words = _word_ends(np.frombuffer(spelled, np.uint8), self.rule, self.classes, ends)
        borders = [0, *ends[:num_words].tolist()]
        return [spelled[start:end].decode() for start, end in pairwise(borders)]
