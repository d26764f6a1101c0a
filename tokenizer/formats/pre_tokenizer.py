"""The split of a tokenizer in tokenizer.json: its field `pre_tokenizer`.

The field holds a chain of steps; each step splits the parts that the step before it made:

    {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": ...}, {"type": "ByteLevel", ...}]}

The last step is ByteLevel, which writes bytes in the alphabet of text/spelling.py; with `use_regex` it also splits by
GPT-2's pattern. Files spell one and the same pattern in different ways, so the known spellings are listed here.
"""

from __future__ import annotations

import json
from typing import Any

import regex

from tokenizer.disk import Json
from tokenizer.errors import TokenizerError
from tokenizer.text.split import SPLITS, compiled, pattern_of

# Split by GPT-2's pattern, then write bytes in the alphabet; it is also the decoder.
BYTE_LEVEL: Json = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_BYTES_ONLY: Json = {**BYTE_LEVEL, "use_regex": False}
_STEPS: dict[str, Json] = {
    "gpt2": BYTE_LEVEL,
    "digits": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]},
    "none": _BYTES_ONLY,
}

# From a pattern to the split that gives the same words for every text. Not here: cl100k as tiktoken writes it today,
# with `\p{N}{1,3}+`. For tiktoken that `+` makes the match possessive; for the engine that reads tokenizer.json
# (Oniguruma) it repeats the group, so that numbers are not split at all.
SPELLINGS = {
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+": "gpt4",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
} | {SPLITS[name]: name for name in ("gpt2", "gpt4", "qwen2", "gpt4o")}

# What Oniguruma, which reads the patterns of tokenizer.json elsewhere, and Python's `regex` understand differently.
AMBIGUOUS = regex.compile(
    r"""\\[wWbBhHRXKGZ]  # which characters are in a word, and escapes that only one of the engines has
      | \{[\d,]+\}\+   # after a number of repeats, + repeats again or makes the match possessive
      | (?<!\\)\[(?:[^]\\]|\\.)*\[ | && | \|\| | --  # sets inside sets
      | (?<![\\\[])\^ | (?<!\\)\$      # the ends of the text, or of each line
      | \(\?[a-z]*[smx]""",
    regex.VERBOSE,
)


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
    *splitting, last = _steps(pre_tokenizer) or [{}]
    if last.get("type") == "ByteLevel" and last.get("add_prefix_space") is False:
        match splitting, last.get("use_regex", True):
            case [], True:
                return "gpt2"
            case [], False:
                return "none"
            case [{"type": "Digits", "individual_digits": True}], True:
                return "digits"
            case [{"type": "Split", "pattern": {"Regex": str(pattern)}} as step], False:
                # The matches of a known pattern cover the whole text, so to isolate them and to remove all the rest
                # are the same.
                way, known = (step.get("behavior"), step.get("invert", False)), pattern in SPELLINGS
                if way in (("Isolated", False), ("Isolated", True)) or (known and way == ("Removed", True)):
                    if not known:
                        check_pattern(pattern)
                        compiled(pattern)
                    return SPELLINGS.get(pattern, pattern)
    raise TokenizerError(
        f"field pre_tokenizer is {json.dumps(pre_tokenizer)}, and only these can be loaded: ByteLevel, Digits (each "
        "by itself) with ByteLevel, and Split (isolated, by a Regex) with ByteLevel; none with a prefix space."
    )


def _steps(pre_tokenizer: Any) -> list[Json]:
    """Return the steps of a pre-tokenizer, in order; a Sequence may contain Sequences."""
    match pre_tokenizer:
        case {"type": "Sequence", "pretokenizers": list(parts)}:
            return [step for part in parts for step in _steps(part)]
    return [pre_tokenizer if isinstance(pre_tokenizer, dict) else {}]
