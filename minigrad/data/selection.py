"""A part of some documents: all but a few, which are left out or have another text in their place.

The documents are read anew each time, so a part of a text that does not fit into memory is a short list of numbers.

Training text that repeats validation or test text is left out, so that only learning counts. Documents of one source
copy from each other, and a model that was trained on a copy of such a paragraph has seen the answers. Two paragraphs
are taken to be copies if they share 13 words in a row, as in the evaluation of GPT-3 (Brown et al. 2020, appendix C).
Words are letters and digits; case, punctuation and white space do not matter.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from minigrad.errors import InputError

RUN = 13  # words


class DocumentPass:
    """One pass over documents: yields the number and the text of each, and counts and hashes them."""

    def __init__(self, documents: Iterable[str]) -> None:
        self.documents, self.count, self.num_bytes = documents, 0, 0
        self._digest = hashlib.blake2b(digest_size=16)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield number and text of each document."""
        for number, document in enumerate(self.documents):
            text = document.encode()
            self._digest.update(len(text).to_bytes(8, "little") + text)  # with the length: ["ab"] is not ["a", "b"]
            self.count, self.num_bytes = number + 1, self.num_bytes + len(text)
            yield number, document

    @property
    def digest(self) -> bytes:
        """A hash of the documents that were read."""
        return self._digest.digest()


@dataclass(frozen=True, eq=False)
class Selection:
    """All `documents`, except that `changed` gives some, by number, another text, or None to leave them out.

    `seen` is the pass over the documents that chose the changes. Each iteration reads the documents again; it raises
    InputError if they have changed since then.
    """

    documents: Iterable[str]
    changed: Mapping[int, str | None]
    seen: DocumentPass
    num_bytes: int  # of the documents that are left

    @property
    def digest(self) -> bytes:
        """A hash of the documents that are left, found without reading them."""
        return hashlib.blake2b(self.seen.digest + repr(sorted(self.changed.items())).encode(), digest_size=16).digest()

    def __iter__(self) -> Iterator[str]:
        """Yield the documents that are left."""
        reading = DocumentPass(self.documents)
        for number, document in reading:
            found = self.changed.get(number, document)
            if found is not None:
                yield found
        if reading.digest != self.seen.digest:
            raise InputError(
                "the text changed while it was read; wait until whatever writes it has ended, then start again."
            )


def without_repeats(train: Iterable[str], held_out: Iterable[str]) -> tuple[Selection, int]:
    """Return the training documents without the paragraphs that share a run of 13 words with text that is held out.

    Also returns the number of these paragraphs. A paragraph ends at a blank line; of a run that crosses from one into
    the next, the one in which it begins is left out. A document that is held out as it is (which counts as one
    paragraph), or that loses all its paragraphs, is dropped; one that shares nothing is returned as it is.

    >>> words = "to be or not to be that is the question whether tis nobler in the mind"
    >>> unseen, left_out = without_repeats([f"Hamlet\\n\\n{words}\\n\\nExit"], [f"He said {words} to suffer"])
    >>> list(unseen), left_out
    (['Hamlet\\n\\nExit'], 1)
    """
    documents = set(held_out)
    held = {run for text in documents for run in _runs(text)}
    changed, left_out, lost, reading = dict[int, str | None](), 0, 0, DocumentPass(train)
    for number, document in reading:
        pieces = [document]
        if document not in documents:
            if held.isdisjoint(_runs(document)):
                continue
            pieces = re.findall(r".+?(?:\n\s*\n|$(?!\n))", document, re.DOTALL)  # each with its blank lines
        unseen, behind = list[str](), ""
        for piece in reversed(pieces):
            text = piece + behind  # a run may cross from a paragraph into the next
            if piece not in documents and held.isdisjoint(_runs(text)):
                unseen.insert(0, piece)
                behind = " ".join(_words(text)[: RUN - 1])
        left_out += len(pieces) - len(unseen)
        is_empty = not any(piece.strip() for piece in unseen)
        changed[number] = kept = None if is_empty else "".join(unseen).rstrip()
        lost += len(document.encode()) - len((kept or "").encode())
    return Selection(train, changed, reading, reading.num_bytes - lost), left_out


def evenly(documents: Iterable[str], share: float) -> Iterator[str]:
    """Yield the given share of some documents, evenly spaced; of one document or more at least one.

    >>> list(evenly("abcdefg", 0.4))
    ['a', 'c', 'f']
    """
    for number, document in enumerate(documents):
        if math.ceil(number * share) < math.ceil((number + 1) * share):
            yield document


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _runs(text: str) -> Iterator[int]:
    """Yield a hash of each run: the words themselves would take several times the memory."""
    words = _words(text)
    return map(hash, zip(*(islice(words, start, None) for start in range(RUN)), strict=False))
