r"""A tokenizer as a web page holds it: plain data, and the pattern of its split in the language of JavaScript.

Browsers know different versions of Unicode. So a class of characters, such as ``\p{L}``, is written as ``<L>`` in the
pattern, and its characters are listed as ranges: they are those of the `regex` library, which encodes here.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import regex

from tokenizer.errors import TokenizerError
from tokenizer.text.split import SPLITS, pattern_of
from tokenizer.vocabulary import Vocabulary

_CLASS = r"\\p\{(\w+)\}|\\(s)"


def for_web_page(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return everything that decides encoding and decoding, as data for JSON.

    Raises TokenizerError for a tokenizer with byte fallback, and for a pattern that is not one of SPLITS.
    """
    if vocabulary.byte_ids:
        raise TokenizerError("a web page holds byte-level tokenizers, and this one begins with characters")
    pattern, ids = pattern_of(vocabulary.split), vocabulary.ids
    if pattern not in SPLITS.values():
        raise TokenizerError(f"a web page splits text as {', '.join(SPLITS)} do, not by the pattern {pattern!r}")
    merges = [(ids[left], ids[right], ids[left + right]) for left, right in vocabulary.merges]
    made, early = {ids[bytes([byte])] for byte in range(256)}, set[int]()  # early: before the merge that makes them
    for *parts, result in merges:
        early |= {*parts} - made
        made |= {*parts, result}
    names = sorted({first or second for first, second in regex.findall(_CLASS, pattern)})
    return {
        "pattern": in_javascript(pattern),
        "classes": {name: ranges_of(rf"\p{{{name}}}" if name != "s" else r"\s") for name in names},
        "bytes": [ids[bytes([byte])] for byte in range(256)],
        "merges": [number for merge in merges for number in merge],
        "others": [[number, list(token)] for token, number in ids.items() if number in early or number not in made],
        "specials": vocabulary.specials,
        "added": vocabulary.added,
        "last": sorted(vocabulary.normalized & vocabulary.added.keys()),
        "nfc": vocabulary.nfc,
        "wholeWords": vocabulary.whole_words,
        "size": vocabulary.size,
    }


def in_javascript(pattern: str) -> str:
    r"""Return a pattern of SPLITS for JavaScript with its flag u, and its classes by name.

    >>> in_javascript(r"(?i:'s)| ?\p{L}+|[^\s\p{N}]|\s+(?!\S)|(?s:.+)")
    "(?:'[Ssſ])| ?[<L>]+|[^<s><N>]|[<s>]+(?![^<s>])|[^]+"
    """
    found = pattern.replace("(?s:.+)", "[^]+").replace(r"\S", "[^<s>]")
    found = regex.sub(
        r"\(\?i:([^)]*)\)",
        lambda group: f"(?:{regex.sub('[a-z]', lambda each: _in_any_case(each[0]), group[1])})",
        found,
    )
    parts = regex.split(r"(\[\^\]|\[[^\]]*\])", found)  # brackets, and the text between them

    def named(part: str, template: str) -> str:
        return str(regex.sub(_CLASS, lambda each: template.format(each[1] or each[2]), part))

    return "".join(named(part, "<{}>" if i % 2 else "[<{}>]") for i, part in enumerate(parts))


def _in_any_case(words: str) -> str:
    return str(regex.sub("[a-z]", lambda each: f"[{_cases_of(each[0])}]", words))


@cache
def _cases_of(letter: str) -> str:
    return "".join(regex.findall(f"(?i:{letter})", _everything()))


@cache
def _everything() -> str:
    return "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)


@cache
def ranges_of(kind: str) -> list[int]:
    r"""Return the code points of a class: the first and the last of each range.

    >>> ranges_of(r"\s")[:4]
    [9, 13, 32, 32]
    """
    found = list[int]()
    for run in regex.finditer(f"{kind}+", _everything()):
        found += [ord(run[0][0]), ord(run[0][-1])]
    return found
