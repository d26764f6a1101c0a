"""How tokenizer.json says how text is cut into words, and which of its ways are known here.

A tokenizer.json has a chain of steps, each cutting the pieces of the one before:

    {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": ...}, {"type": "ByteLevel", ...}]}

The last one is ByteLevel, which writes bytes in the alphabet of alphabet.py; with `use_regex` it also cuts with
GPT-2's pattern. Different files spell the same pattern differently, so the spellings are listed here.
"""

from __future__ import annotations

import json

import regex

from tokenizer.disk import Json
from tokenizer.errors import TokenizerError
from tokenizer.text.split import SPLITS, compiled

SPELLINGS = {
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+": "gpt4",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
} | {SPLITS[name].pattern: name for name in ("gpt2", "gpt4", "qwen2", "gpt4o")}
# Not here: cl100k as tiktoken has it today, with `\p{N}{1,3}+`. To tiktoken that `+` means not to give back; to the
# engine that reads tokenizer.json (Oniguruma) it means to repeat, so that numbers are not cut at all.
"""From a pattern to the split that cuts every text as it does."""


DISAGREED = regex.compile(
    r"""\\[wWbBhHRXKGZ]  # which characters are in a word, and escapes that only one of the engines knows
      | \{[\d,]+\}\+   # after a number of repeats, + repeats again or forbids to give back
      | (?<!\\)\[(?:[^]\\]|\\.)*\[ | && | \|\| | --  # sets inside sets
      | (?<![\\\[])\^ | (?<!\\)\$      # the ends of the text, or of each line
      | \(\?[a-z]*[smx]""",
    regex.VERBOSE,
)
"""What the two engines read differently: Oniguruma, for which tokenizer.json is written, and Python's `regex`."""


def check_pattern(pattern: str) -> None:
    r"""Raise TokenizerError if a pattern of one's own would cut text differently in other programs.

    >>> check_pattern(r"\p{L}+|\p{N}{1,3}|[^\p{L}\p{N}]+")
    """
    if found := DISAGREED.search(pattern):
        raise TokenizerError(
            f"the pattern {pattern!r} has {found[0]!r}, which the engine that reads tokenizer.json elsewhere, "
            r"Oniguruma, understands differently; say it by classes and by what follows, as [\p{L}\p{N}_] and (?!\S)."
        )


def split_of(pre_tokenizer: Json) -> str:
    """Return the name of the split that a pre-tokenizer does; raises TokenizerError if there is none.

    >>> split_of({"type": "ByteLevel", "add_prefix_space": False})
    'gpt2'
    """
    steps = _steps(pre_tokenizer)
    cutting, last = steps[:-1], steps[-1] if steps else {}
    if last.get("type") != "ByteLevel" or not all(isinstance(step, dict) for step in steps):
        raise _unsupported(pre_tokenizer, "it does not end with ByteLevel")
    if last.get("add_prefix_space") is not False:
        raise _unsupported(pre_tokenizer, "add_prefix_space is not false: it would put a space before every text")
    use_regex = last.get("use_regex", True)
    if not cutting:
        return "gpt2" if use_regex else "none"
    if len(cutting) == 1 and cutting[0].get("type") == "Digits" and use_regex:
        if cutting[0].get("individual_digits") is True:
            return "digits"
        raise _unsupported(pre_tokenizer, "individual_digits is not true")
    if len(cutting) == 1 and cutting[0].get("type") == "Split" and not use_regex:
        return _split_of_pattern(cutting[0], pre_tokenizer)
    raise _unsupported(pre_tokenizer, "these steps together are not known")


def _steps(pre_tokenizer: Json) -> list[Json]:
    """Return the steps of a pre-tokenizer, one behind the other; a Sequence may hold Sequences."""
    if pre_tokenizer.get("type") != "Sequence":
        return [pre_tokenizer]
    parts = pre_tokenizer.get("pretokenizers")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise _unsupported(pre_tokenizer, "field pretokenizers is no list of objects")
    return [step for part in parts for step in _steps(part)]


def _split_of_pattern(step: Json, pre_tokenizer: Json) -> str:
    pattern = step.get("pattern")
    expression = pattern.get("Regex") if isinstance(pattern, dict) else None
    if not isinstance(expression, str):
        raise _unsupported(pre_tokenizer, "it has no field pattern.Regex")
    kept = (step.get("behavior"), bool(step.get("invert")))
    # The matches of a known pattern tile the text: to isolate them, or to remove all that is none, is the same.
    if kept[0] != "Isolated" and not (kept == ("Removed", True) and expression in SPELLINGS):
        raise _unsupported(pre_tokenizer, f"its words are {kept[0]} with invert {kept[1]}, expected Isolated")
    if expression in SPELLINGS:
        return SPELLINGS[expression]
    check_pattern(expression)
    compiled(expression)
    return expression


def _unsupported(pre_tokenizer: Json, reason: str) -> TokenizerError:
    return TokenizerError(
        f"field pre_tokenizer is {json.dumps(pre_tokenizer)}, and {reason}; only these can be loaded: ByteLevel, "
        "Digits with ByteLevel, and Split (isolated) with ByteLevel, without a prefix space."
    )
