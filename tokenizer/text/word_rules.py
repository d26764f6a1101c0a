r"""The patterns of split.py as plain code: the same words, some fifty times as fast.

A regular expression is interpreted character by character. The patterns of GPT-2 and GPT-4 distinguish only four
classes of characters: letters, numbers, white space and others. So one table holds the class of every code point of
Unicode, and each alternative of a pattern becomes a line or two of compiled code. `gpt4o` and a user's own pattern need
the `regex` library.

The table is built from `regex` itself when it is first needed, so both follow one version of Unicode.
"""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import regex
from numpy.typing import NDArray

from tokenizer.jit import kernel

Bytes = NDArray[np.uint8]
Classes = NDArray[np.uint8]  # (0x110000,): the class of each code point

OTHER, LETTER, NUMBER, SPACE = range(4)
QUOTE, BLANK, LINE_FEED, RETURN = b"' \n\r"  # as numbers: Numba compiles strings slowly
S, T, M, D, L, R, V, E = b"stmdlrve"
ONE_WORD, GPT2, DIGITS, GPT4, QWEN2 = range(5)
RULES = {"none": ONE_WORD, "gpt2": GPT2, "digits": DIGITS, "gpt4": GPT4, "qwen2": QWEN2}  # without a regular expression


@cache
def character_classes() -> Classes:
    """Return the class of every code point, (0x110000,): LETTER, NUMBER, SPACE or OTHER."""
    everything = np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    table = np.full(len(everything), OTHER, np.uint8)
    for kind, pattern in ((LETTER, r"\p{L}+"), (NUMBER, r"\p{N}+"), (SPACE, r"\s+")):
        for run in regex.finditer(pattern, everything):
            table[run.start() : run.end()] = kind
    return table


@kernel
def _code_point(text: Bytes, i: int) -> tuple[int, int]:
    """Return the code point of the character at byte i and its number of bytes; the text is valid UTF-8."""
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
def _class_at(text: Bytes, i: int, stop: int, classes: Classes) -> int:
    """Return the class of the character at byte i, or -1 at the end of the text."""
    return int(classes[_code_point(text, i)[0]]) if i < stop else -1


@kernel
def _run_end(text: Bytes, i: int, stop: int, classes: Classes, kind: int, max_characters: int) -> int:
    """Return the end of a run of characters of one class; the run has at most `max_characters`."""
    while i < stop and max_characters > 0:
        code, length = _code_point(text, i)
        if classes[code] != kind:
            break
        i += length
        max_characters -= 1
    return i


@kernel
def _contraction_end(text: Bytes, i: int, stop: int, any_case: bool) -> int:
    """Return the end of 's, 't, 're, 've, 'm, 'll or 'd at byte i, or i if there is none."""
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
        return i + 3  # the long s, U+017F: in Unicode it matches S if case is ignored
    return i


@kernel
def _space_end(text: Bytes, i: int, stop: int, classes: Classes, lines: bool, digits: bool) -> int:
    r"""Return the end of a word of white space: `\s*[\r\n]+` if `lines`, then `\s+(?!\S)`, then `\s+`.

    The last white space belongs to the next word, except with `digits` if the next word is a number.
    """
    end, last, after_line = i, i, -1
    while end < stop:
        code, length = _code_point(text, end)
        if classes[code] != SPACE:
            break
        last = end
        end += length
        if code in (LINE_FEED, RETURN):
            after_line = end
    if lines and after_line > 0:
        return after_line
    if end == stop or last == i or (digits and _class_at(text, end, stop, classes) == NUMBER):
        return end
    return last


@kernel
def _gpt2_end(text: Bytes, i: int, stop: int, classes: Classes, digits: bool) -> int:
    """Return the end of the word at byte i by the pattern `gpt2`, or `digits`."""
    end = _contraction_end(text, i, stop, False)
    if end > i:
        return end
    kind = _class_at(text, i, stop, classes)
    if text[i] == BLANK:
        following = _class_at(text, i + 1, stop, classes)
        if following >= 0 and following != SPACE and not (digits and following == NUMBER):
            return _run_end(text, i + 1, stop, classes, following, stop)
    if kind == SPACE:
        return _space_end(text, i, stop, classes, False, digits)
    return _run_end(text, i, stop, classes, kind, 1 if digits and kind == NUMBER else stop)


@kernel
def _gpt4_end(text: Bytes, i: int, stop: int, classes: Classes, longest_number: int) -> int:
    """Return the end of the word at byte i by the pattern `gpt4`, or `qwen2`, whose longest number is 1."""
    end = _contraction_end(text, i, stop, True)
    if end > i:
        return end
    code, length = _code_point(text, i)
    kind = int(classes[code])
    if kind == NUMBER:
        return _run_end(text, i, stop, classes, NUMBER, longest_number)
    following = _class_at(text, i + length, stop, classes)
    if kind == LETTER or (following == LETTER and code != LINE_FEED and code != RETURN):
        return _run_end(text, i + length, stop, classes, LETTER, stop)
    if kind == OTHER or (following == OTHER and code == BLANK):
        end = _run_end(text, i + length, stop, classes, OTHER, stop)
        while end < stop and (text[end] == LINE_FEED or text[end] == RETURN):
            end += 1
        return end
    return _space_end(text, i, stop, classes, True, False)


@kernel
def word_end(text: Bytes, i: int, stop: int, rule: int, classes: Classes) -> int:
    """Return the end of the word that begins at byte i by one of RULES, at most `stop`; by ONE_WORD it is `stop`."""
    if rule in (GPT2, DIGITS):
        return _gpt2_end(text, i, stop, classes, rule == DIGITS)
    if rule in (GPT4, QWEN2):
        return _gpt4_end(text, i, stop, classes, 3 if rule == GPT4 else 1)
    return stop
