"""How tokenizer.json says how text is cut into words, and which of its ways are known here.

A tokenizer.json has a chain of steps, each cutting the pieces of the one before:

    {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": ...}, {"type": "ByteLevel", ...}]}

The last one is ByteLevel, which writes bytes in the alphabet of alphabet.py; with `use_regex` it also cuts with
GPT-2's pattern. Different files spell the same pattern differently, so the spellings are listed here.
"""

from __future__ import annotations

import json

from tokenizer.disk import Json
from tokenizer.errors import TokenizerError
from tokenizer.split import SPLITS

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
    if not isinstance(expression, str) or expression not in SPELLINGS:
        raise _unsupported(pre_tokenizer, f"the pattern {expression!r} is not known")
    # The matches of a known pattern tile the text: to isolate them, or to remove all that is none, is the same.
    kept = (step.get("behavior"), bool(step.get("invert")))
    if kept not in (("Isolated", False), ("Isolated", True), ("Removed", True)):
        raise _unsupported(pre_tokenizer, f"its words are {kept[0]} with invert {kept[1]}, expected Isolated")
    return SPELLINGS[expression]


def _unsupported(pre_tokenizer: Json, reason: str) -> TokenizerError:
    return TokenizerError(
        f"field pre_tokenizer is {json.dumps(pre_tokenizer)}, and {reason}; only these can be loaded: ByteLevel, "
        "Digits with ByteLevel, and Split with ByteLevel by a pattern of "
        f"{', '.join(dict.fromkeys(SPELLINGS.values()))}, without a prefix space."
    )
