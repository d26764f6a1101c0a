"""Texts in lots of about a million letters: enough work for a thread, too little to fill the memory.

Texts may come from an iterator and need not fit into memory together. Short ones share a lot, long ones are cut where
every rule of scanner.py has a border anyway. The lots do not depend on the number of threads, and their results are
taken in order, so no result does either.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import regex

from tokenizer.errors import TokenizerError

LOT = 1 << 20  # characters
# Behind the last letter of a run, and between anything visible and a space, every rule ends a word, and no rule looks
# further from there to find the words before. (?r) finds the last such place.
_LAST_BORDER = regex.compile(r"(?r)\p{L}(?=\P{L})|\S(?= )")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class Lot:
    """Pieces of texts; a long text has pieces in several lots."""

    pieces: list[str] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)  # for each piece, the number of its text
    num_letters: int = 0


def lots(texts: Iterable[str], *, may_cut: bool) -> Iterator[Lot]:
    """Go through texts in lots; with `may_cut`, long ones are cut.

    Raises TokenizerError for a text that is no str, or for one str in place of an iterable of them.
    """
    if isinstance(texts, str):
        raise TokenizerError("texts is one string, and a list of them is read here: pass [text].")
    lot = Lot()
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TokenizerError(f"text {number} is a {type(text).__name__}, expected a str.")
        for piece in _pieces(text) if may_cut else (text,):
            lot.pieces.append(piece)
            lot.owners.append(number)
            lot.num_letters += len(piece)
            if lot.num_letters >= LOT:
                yield lot
                lot = Lot()
    if lot.pieces:
        yield lot


def _pieces(text: str) -> Iterator[str]:
    start, stop = 0, LOT
    while stop < len(text):
        border = last_border(text, start, stop)
        if border > start:
            yield text[start:border]
            start, stop = border, border
        stop += LOT
    yield text[start:]


def last_border(text: str, start: int, stop: int) -> int:
    """Return the last place in text[start:stop] where it may be cut without changing any word, or `start`."""
    found = _LAST_BORDER.search(text, start, stop)
    return found.end() if found else start


def read_files(paths: Iterable[str | Path]) -> Iterator[str]:
    """Go through the text of UTF-8 files in pieces, so that a file may be larger than the memory.

    A piece ends where every rule of scanner.py has a border, so the words are those of the whole file; with the split
    "none" or a pattern of your own, no token crosses from one piece to the next. Line ends stay as they are.
    Raises TokenizerError for a file that cannot be read or is not UTF-8.
    """
    for path in map(Path, paths):
        try:
            with path.open(encoding="utf-8", newline="") as file:
                rest = ""
                while more := file.read(LOT):
                    *whole, rest = _pieces(rest + more)
                    yield from whole
                yield rest
        except OSError as error:
            raise TokenizerError(f"cannot read {path}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise TokenizerError(
                f"{path} is not UTF-8: {error.reason}; convert it, or read it with errors='replace' and pass its text."
            ) from error


def num_threads(asked: int | None) -> int:
    """Return how many threads to use: those asked for, or all that this process may use.

    Raises TokenizerError for less than one.
    """
    if asked is not None and asked < 1:
        raise TokenizerError(f"threads={asked}: expected 1 or more.")
    if asked is not None:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Go through function(item) for each item, in order, while the threads work on the next few."""
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
