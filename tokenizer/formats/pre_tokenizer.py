"""The split of a tokenizer in tokenizer.json: its field `pre_tokenizer`.

The field holds a chain of steps; each step splits the parts that the step before it made:

    {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": ...}, {"type": "ByteLevel", ...}]}

The last step is ByteLevel, which writes bytes in the alphabet of text/spelling.py; with `use_regex` it also splits by
GPT-2's pattern. Files spell one and the same pattern in different ways, so the known spellings are listed here.
"""

from __future__ import annotations

import json

import regex

from tokenizer.disk import Json
from tokenizer.errors import TokenizerError
from tokenizer.text.split import SPLITS, compiled, pattern_of

BYTE_LEVEL: Json = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
"""Split by GPT-2's pattern, then write bytes in the alphabet; it is also the decoder."""

_BYTES_ONLY: Json = {**BYTE_LEVEL, "use_regex": False}
_STEPS: dict[str, Json] = {
    "gpt2": BYTE_LEVEL,
    "digits": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]},
    "none": _BYTES_ONLY,
}

SPELLINGS = {
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+": "gpt4",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
} | {SPLITS[name]: name for name in ("gpt2", "gpt4", "qwen2", "gpt4o")}
# Not here: cl100k as tiktoken writes it today, with `\p{N}{1,3}+`. For tiktoken that `+` makes the match possessive;
# for the engine that reads tokenizer.json (Oniguruma) it repeats the group, so that numbers are not split at all.
"""From a pattern to the split that gives the same words for every text."""


AMBIGUOUS = regex.compile(
    r"""\\[wWbBhHRXKGZ]  # which characters are in a word, and escapes that only one of the engines has
      | \{[\d,]+\}\+   # after a number of repeats, + repeats again or makes the match possessive
      | (?<!\\)\[(?:[^]\\]|\\.)*\[ | && | \|\| | --  # sets inside sets
      | (?<![\\\[])\^ | (?<!\\)\$      # the ends of the text, or of each line
      | \(\?[a-z]*[smx]""",
    regex.VERBOSE,
)
"""What Oniguruma, which reads the patterns of tokenizer.json elsewhere, and Python's `regex` understand differently."""


def check_pattern(pattern: str) -> None:
    r"""Raise TokenizerError if other programs would split text differently by this pattern.

    >>> check_pattern(r"\p{L}+|\p{N}{1,3}|[^\p{L}\p{N}]+")
    """
    if found := AMBIGUOUS.search(pattern):
        raise TokenizerError(
            f"the pattern {pattern!r} has {found[0]!r}, which the engine that reads tokenizer.json elsewhere, "
            r"Oniguruma, understands differently; write it with classes and lookaheads, as [\p{L}\p{N}_] and (?!\S)."
        )


def pre_tokenizer_of(split: str) -> Json:
    """Return the pre-tokenizer of a split, given its name or pattern.

    Raises TokenizerError for a pattern that other programs would understand differently.
    """
    if split in _STEPS:
        return _STEPS[split]
    if split not in SPLITS:
        check_pattern(split)
    isolated = {"type": "Split", "pattern": {"Regex": pattern_of(split)}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [isolated, _BYTES_ONLY]}


def split_of(pre_tokenizer: Json) -> str:
    """Return the name or pattern of the split that a pre-tokenizer makes; raises TokenizerError if it is not known.

    >>> split_of({"type": "ByteLevel", "add_prefix_space": False})
    'gpt2'
    """
    steps = _steps(pre_tokenizer)
    splitting, last = steps[:-1], steps[-1] if steps else {}
    if last.get("type") != "ByteLevel" or not all(isinstance(step, dict) for step in steps):
        raise _unsupported(pre_tokenizer, "it does not end with ByteLevel")
    if last.get("add_prefix_space") is not False:
        raise _unsupported(pre_tokenizer, "add_prefix_space is not false: it would put a space before every text")
    use_regex = last.get("use_regex", True)
    if not isinstance(use_regex, bool):
        raise _unsupported(pre_tokenizer, "use_regex is neither true nor false")
    if not splitting:
        return "gpt2" if use_regex else "none"
    if len(splitting) == 1 and splitting[0].get("type") == "Digits" and use_regex:
        if splitting[0].get("individual_digits") is True:
            return "digits"
        raise _unsupported(pre_tokenizer, "individual_digits is not true")
    if len(splitting) == 1 and splitting[0].get("type") == "Split" and not use_regex:
        return _split_of_pattern(splitting[0], pre_tokenizer)
    raise _unsupported(pre_tokenizer, "these steps together are not known")


def _steps(pre_tokenizer: Json) -> list[Json]:
    """Return the steps of a pre-tokenizer, in order; a Sequence may contain Sequences."""
    if pre_tokenizer.get("type") != "Sequence":
        return [pre_tokenizer]
    parts = pre_tokenizer.get("pretokenizers")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise _unsupported(pre_tokenizer, "field pretokenizers is not a list of objects")
    return [step for part in parts for step in _steps(part)]


def _split_of_pattern(step: Json, pre_tokenizer: Json) -> str:
    """Return the split of a step of type Split; `pre_tokenizer` is the whole field, for messages."""
    pattern = step.get("pattern")
    expression = pattern.get("Regex") if isinstance(pattern, dict) else None
    if not isinstance(expression, str):
        raise _unsupported(pre_tokenizer, "it has no field pattern.Regex")
    behavior, invert = step.get("behavior"), step.get("invert", False)
    if not isinstance(invert, bool):
        raise _unsupported(pre_tokenizer, "invert is neither true nor false")
    # The matches of a known pattern cover the whole text, so isolating them and removing all the rest are the same.
    if behavior != "Isolated" and not (behavior == "Removed" and invert and expression in SPELLINGS):
        raise _unsupported(pre_tokenizer, f"its words are {behavior} with invert {invert}, expected Isolated")
    if expression in SPELLINGS:
        return SPELLINGS[expression]
    check_pattern(expression)
    compiled(expression)
    return expression


def _unsupported(pre_tokenizer: Json, reason: str) -> TokenizerError:
    """Return the error for a pre-tokenizer that cannot be loaded."""
    return TokenizerError(
        f"field pre_tokenizer is {json.dumps(pre_tokenizer)}, and {reason}; only these can be loaded: ByteLevel, "
        "Digits with ByteLevel, and Split (isolated) with ByteLevel, without a prefix space."
    )
