"""Texts in chunks of about a million characters: enough work for a thread, and little memory.

The texts need not fit into memory together. Short texts share a chunk; a long text is cut where every rule of
word_rules.py ends a word. The chunks do not depend on the number of threads, and their results are taken in order, so
results do not depend on it either.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import regex

from tokenizer.errors import TokenizerError

CHUNK_SIZE = 1 << 20  # characters

# After the last letter of a run, and before a space that follows a visible character, every rule ends a word, and the
# words before this border do not depend on the text after it. An accent stays with its letter, because NFC may join
# them. (?r) searches from the end: it finds the last border.
_LAST_BORDER = regex.compile(r"(?r)\p{L}(?=[^\p{L}\p{M}])|\S(?= )")


@dataclass
class Chunk:
    """Parts of texts; a long text has parts in several chunks."""

    parts: list[str] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)  # for each part, the index of its text
    num_characters: int = 0


def chunks(texts: Iterable[str], *, may_cut: bool) -> Iterator[Chunk]:
    """Yield texts in chunks of about CHUNK_SIZE characters; if `may_cut`, long texts are cut at borders.

    Raises TokenizerError as `checked` does.
    """
    chunk = Chunk()
    for number, text in enumerate(checked(texts)):
        for part in cut(text) if may_cut else (text,):
            chunk.parts.append(part)
            chunk.owners.append(number)
            chunk.num_characters += len(part)
            if chunk.num_characters >= CHUNK_SIZE:
                yield chunk
                chunk = Chunk()
    if chunk.parts:
        yield chunk


def checked(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts; raises TokenizerError for an item that is not a str, and for one str in place of many."""
    if isinstance(texts, str):
        raise TokenizerError("texts is one string, expected a list of them: pass [text].")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TokenizerError(f"text {number} is a {type(text).__name__}, expected a str.")
        yield text


def cut(text: str) -> Iterator[str]:
    """Yield a text in parts that end at borders.

    A part has at most CHUNK_SIZE characters, or more if the first CHUNK_SIZE of them have no border.
    """
    start, searched, stop = 0, 0, CHUNK_SIZE
    while stop < len(text):
        border = last_border(text, searched, stop)
        if border > searched:
            yield text[start:border]
            start = searched = stop = border
        else:
            searched = stop - 1  # the last character is a border only if the next one allows it
        stop += CHUNK_SIZE
    yield text[start:]


def last_border(text: str, start: int, stop: int, names: Iterable[str] = ()) -> int:
    """Return the last position in text[start:stop] at which a cut changes no word, or `start` if there is none.

    No cut is made inside one of the `names` of special tokens, nor inside the beginning of one at the end of the text,
    which may go on.

    >>> last_border("it's naïve", 0, 10)
    4
    >>> last_border("it's<|end|>", 0, 11), last_border("it's<|end|>", 0, 11, ["<|end|>"])
    (9, 4)
    """
    while found := _LAST_BORDER.search(text, start, stop):
        border: int = found.end()
        around = [place for name in names for place in _around(text, border, name)]
        if not around:
            return border
        stop = min(around) + 1  # the border may be where the name begins
    return start


def _around(text: str, border: int, name: str) -> Iterator[int]:
    """Yield the places before a border at which a name begins, or may begin, that ends after it."""
    for place in range(max(0, border - len(name) + 1), border):
        if name.startswith(text[place : place + len(name)]):
            yield place


Item = TypeVar("Item")
Result = TypeVar("Result")


def num_threads(requested: int | None) -> int:
    """Return the requested number of threads, or, for None, the number of processors that this process may use.

    Raises TokenizerError if fewer than one are requested.
    """
    if requested is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if requested < 1:
        raise TokenizerError(f"threads={requested}: expected 1 or more.")
    return requested


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yield function(item) for each item, in order; meanwhile threads compute at most the next `threads` items."""
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
