r"""Cutting text into words before any bytes are merged.

No token may cross the border between two words: without this rule `dog.`, `dog!` and `dog?` would each become
a token, and a letter could merge with the digit behind it. Joined, the words are exactly the text again:
nothing is dropped.

Source of the pattern: Radford et al. (2019), section 2.2, and GPT-2's released code. `\p{L}` is any letter of
any script, `\p{N}` any number; a word takes the space before it along, so that ` the` is one token in the
middle of a sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import regex
from tqdm import tqdm

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


SPLITS = {
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
"""The known ways to cut text, by name."""


def compiled(name: str) -> Any:
    """Return the compiled pattern of a split; raises TokenizerError for an unknown name.

    >>> compiled("gpt2").findall("We'll  meet at 10:45!")
    ['We', "'ll", ' ', ' meet', ' at', ' 10', ':', '45', '!']
    >>> compiled("digits").findall("at 10:45!")
    ['at', ' ', '1', '0', ':', '4', '5', '!']
    """
    if name not in SPLITS:
        nearest = get_close_matches(str(name), SPLITS, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
        raise TokenizerError(f"unknown split {name!r}: expected one of {', '.join(SPLITS)}{hint}")
    return regex.compile(SPLITS[name].pattern)


def special_pattern(specials: Iterable[str]) -> Any:
    """Return a pattern whose one group is a special token; of two that fit in one place the longer is taken.

    >>> special_pattern(["<|end|>"]).split("Hello<|end|>you")
    ['Hello', '<|end|>', 'you']
    """
    longest_first = sorted(specials, key=len, reverse=True)
    # (?!) matches nowhere: without special tokens a text is one piece.
    return regex.compile("(" + ("|".join(map(regex.escape, longest_first)) or "(?!)") + ")")


def count_words(
    texts: Iterable[str], split: str, specials: Iterable[str] = (), *, progress: bool = False
) -> Counter[str]:
    """Count each different word of the texts: all that training ever looks at.

    Special tokens in a text are borders and are not counted, so no learned token can ever contain one.
    Raises TokenizerError if `texts` is not an iterable of str, or for an unknown split.

    >>> count_words(["to be or not to be"], "gpt2")
    Counter({' be': 2, 'to': 1, ' or': 1, ' not': 1, ' to': 1})
    """
    if isinstance(texts, str):
        raise TokenizerError("texts is one string, and training reads a list of them: pass [text].")
    words = compiled(split)
    borders = special_pattern(specials)
    counts: Counter[str] = Counter()
    # disable=None: a bar on a terminal, nothing in a file or a pipe.
    bar = tqdm(texts, desc="counting words", unit=" texts", disable=None if progress else True)
    for number, text in enumerate(bar):
        if not isinstance(text, str):
            raise TokenizerError(f"text {number} is a {type(text).__name__}, expected a str.")
        for piece in borders.split(text)[::2]:
            counts.update(words.findall(piece))
    return counts
