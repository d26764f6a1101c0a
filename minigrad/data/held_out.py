"""Which documents are held out from training: a share of them, chosen by their hashes.

The choice needs no seed, equal documents stay together, and a document added later does not change the choice of the
others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from minigrad.data.selection import Reading, Selection
from minigrad.errors import InputError

SHARE = 1 / 16  # of the documents
MOST_BYTES = 1 << 24  # evaluating more takes minutes and tells no more


class _Candidate(NamedTuple):
    """A document that may be held out: its hash as a share, its number, its text."""

    share: float
    number: int
    text: str


def hold_out(documents: Iterable[str]) -> tuple[tuple[str, ...] | Selection, tuple[str, ...]]:
    """Return (documents to train on, held-out documents); neither is ever empty.

    A document is held out if the hash of its text, read as a number in [0, 1), is below 1/16; if these have more than
    16 MiB, below a half of that, and so on. If no hash is, the document with the smallest one is held out; if every
    hash is, the one with the largest is trained on; of a single document, the last tenth is held out. Raises
    InputError if there is too little text to split.
    """
    reading, limit, size = Reading(documents), SHARE, 0
    held, least, largest = list[_Candidate](), list[_Candidate](), 0.0
    for number, text in reading:
        each = _Candidate(_share(text), number, text)
        largest = max(largest, each.share)
        if not least or each.share <= least[0].share:
            least = [*(least if least and each.share == least[0].share else []), each]
        if each.share < limit:
            held.append(each)
            size += len(text.encode())
        while size > MOST_BYTES:
            limit /= 2
            held = [each for each in held if each.share < limit]
            size = sum(len(each.text.encode()) for each in held)
    if least[0].share == largest:  # all are equal
        return cut(least[0].text)
    if len(held) == reading.count:
        held = [each for each in held if each.share < largest]
    held = held or least
    changed, chosen = dict.fromkeys(each.number for each in held), tuple(each.text for each in held)
    left = reading.num_bytes - sum(len(text.encode()) for text in chosen)
    return Selection(documents, changed, reading, left), chosen


def cut(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a document without its last tenth, and that; raises InputError if it is too short."""
    place = len(text) * 9 // 10
    # After a line break, if there is one in the eighth or ninth tenth.
    place = text.rfind("\n", place * 8 // 9, place) + 1 or place
    train, held_out = text[:place], text[place:]
    if not train.strip() or not held_out.strip():
        raise InputError(
            f"{len(text):,} characters of text are too few to hold some out from training. Give --data more text."
        )
    return (train,), (held_out,)


def _share(text: str) -> float:
    """Return a hash of the text as a number in [0, 1); the hashes of different texts are spread evenly."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
