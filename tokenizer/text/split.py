r"""Cutting text into words before any bytes are merged.

No token may cross the border between two words: without this rule `dog.`, `dog!` and `dog?` would each become
a token, and a letter could merge with the digit behind it. Joined, the words are exactly the text again:
nothing is dropped.

Source of the pattern: Radford et al. (2019), section 2.2, and GPT-2's released code. `\p{L}` is any letter of
any script, `\p{N}` any number; a word takes the space before it along, so that ` the` is one token in the
middle of a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import regex

from tokenizer.errors import TokenizerError

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
"""How tokenizer.json says: cut the text with GPT-2's pattern, then write bytes in the alphabet."""


@dataclass(frozen=True)
class Split:
    """A way to cut text, with the words Hugging Face's tokenizer.json has for it."""

    pattern: str  # consecutive matches tile the whole text
    pre_tokenizer: dict[str, Any]


def _by(pattern: str) -> Split:
    isolated = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return Split(pattern, {"type": "Sequence", "pretokenizers": [isolated, {**BYTE_LEVEL, "use_regex": False}]})


_NAMED = {
    "gpt2": Split(
        # it's -> it 's; then runs of letters, of numbers, of anything else; of white space, the last one is
        # left to the word behind it.
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        BYTE_LEVEL,
    ),
    "digits": Split(
        # As gpt2, but each digit is a word of its own, as in SmolLM2: numbers are read digit by digit.
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+",
        {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL],
        },
    ),
    "gpt4": _by(
        # cl100k, also Llama 3's: 'S is as good as 's; any character may lead a word, as in (word; numbers go in
        # threes from the left; line ends stay with the punctuation or the white space before them.
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "qwen2": _by(
        # As gpt4, but each digit is a word of its own.
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "gpt4o": _by(
        # o200k: as gpt4, but a capital letter begins a new word, as in camelCase, and keeps its 's with it.
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "none": Split(
        # One word: tokens may then cross every border.
        r"(?s:.+)",
        {**BYTE_LEVEL, "use_regex": False},
    ),
}


class _Splits(dict[str, Split]):
    """The known ways to cut text, by name; looking up a pattern makes a split of it."""

    def __missing__(self, split: str) -> Split:
        if regex.fullmatch(r"[\w-]*", str(split)):  # no pattern of any use is a mere name
            nearest = get_close_matches(str(split), self, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
            raise TokenizerError(
                f"unknown split {split!r}: expected one of {', '.join(self)}, or a regular expression{hint}"
            )
        return _by(split)


SPLITS = _Splits(_NAMED)
"""From a name to a way of cutting text: SPLITS["gpt2"]. Any other key is a pattern of your own."""


def compiled(split: str) -> Any:
    """Return the compiled pattern of a split; raises TokenizerError for an unknown name or a broken pattern.

    >>> compiled("gpt2").findall("We'll  meet at 10:45!")
    ['We', "'ll", ' ', ' meet', ' at', ' 10', ':', '45', '!']
    >>> compiled("digits").findall("at 10:45!")
    ['at', ' ', '1', '0', ':', '4', '5', '!']
    """
    try:
        return regex.compile(SPLITS[split].pattern)
    except regex.error as error:
        raise TokenizerError(f"the split {split!r} is no regular expression: {error}.") from error


def cut(pattern: Any, text: str) -> list[str]:
    r"""Return the words of a text; what lies between two matches is a word too, so nothing is dropped.

    >>> cut(compiled(r"\w+ ?"), "to be, or")
    ['to ', 'be', ', ', 'or']
    """
    words, end = [], 0
    for match in pattern.finditer(text):
        words += [text[end : match.start()], match.group()]
        end = match.end()
    return [word for word in [*words, text[end:]] if word]


def special_pattern(specials: Iterable[str]) -> Any:
    """Return a pattern whose one group is a special token; of two that fit in one place the longer is taken.

    >>> special_pattern(["<|end|>"]).split("Hello<|end|>you")
    ['Hello', '<|end|>', 'you']
    """
    longest_first = sorted(specials, key=len, reverse=True)
    # (?!) matches nowhere: without special tokens a text is one piece.
    return regex.compile("(" + ("|".join(map(regex.escape, longest_first)) or "(?!)") + ")")
