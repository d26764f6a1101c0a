"""The language of docstrings, comments and messages: habits that make sentences hard to read are refused.

The field has a word for most things, and a reader expects it: write the noun instead of "those that" or "of what".
The list holds the worst habits, each with a better way.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_files import FILES, PROGRAMS, name_of

REFUSED = {
    r"\bthose that\b": "name the noun: the tokens that ...",
    r"\bof (?:which|whom)\b": "whose, including, or a sentence of its own",
    r"\bso many\b": "this many, or the number by its name",
    r"(?<!there )\b(?:is|are|was|were|be) no (?!longer\b|more\b)": "is not a ...",
    r"\basked for\b": "given, requested, wanted",
    r"\b(?:is|are|be|was) told\b": "is reported, is distinguished, receives",
    r"\bbesides\b": "also, except, in addition to",
    r"\b(?:whoever|somebody|nobody|whom)\b": "name who: a user, a process",
    r"\bwhat of\b": "name the noun",
    r"\bnothing of\b": "none of, not",
    r"\b(?:of|from|by|with|for) what (?:is|was|are|were)\b": "name the noun: the settings given, the tokens read",
    r"\b(?:equal|same|far) ones\b": "repeat the noun",
    r"\bas (?:those|that) (?:of|in)\b": "like the ..., as in ...",
    r"\bstands? in\b": "is in",
    r"\ball that (?:is|are|it|has)\b": "everything, all tokens that ...",
}


def words_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, messages and comments of a file, each with its line; comments below each other are one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    comment, last = "", 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] > last + 1:
                yield last, comment
                comment = ""
            comment, last = f"{comment} {token.string.lstrip('# ')}", token.start[0]
    yield last, comment


def refused_in(source: str) -> list[str]:
    """Return the refused words of a file, each with its line and the way out."""
    return [
        f"line {line}: {found[0]!r}; better: {better}"
        for line, text in words_of(source)
        for habit, better in REFUSED.items()
        for found in re.finditer(habit, " ".join(text.split()), re.IGNORECASE)
    ]


@pytest.mark.parametrize("path", FILES + PROGRAMS, ids=name_of)
def test_sentences_are_direct(path: Path) -> None:
    assert not refused_in(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        '"""Return those\n   that are left."""',
        'raise ValueError(f"{path} is no folder")',
        "x = 1  # what is asked for",
        "# The layers, of\n# which one is frozen.\n",
    ],
)
def test_the_rule_can_fail(source: str) -> None:
    assert len(refused_in(source)) == 1
    assert not refused_in('"""There is no folder; it is no longer needed."""\n# A matrix whose rows are normalised.\n')
