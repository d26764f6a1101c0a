"""A text in three parts: text to train on, validation text for every choice, and a test text that is read once.

The parts are a function of the documents alone: they need no seed, and neither the order of the documents nor their
names matter. Held-out text is counted in bytes, and no document decides the judgement of a model alone.
"""

from __future__ import annotations

import hashlib
import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from minigrad.data.selection import DocumentPass, Selection, evenly, without_repeats
from minigrad.errors import InputError
from minigrad.system.units import format_bytes

LARGEST_SAMPLE = 1 << 28  # bytes of a text from which a vocabulary is learned
SHARE = 1 / 16  # of the bytes are for validation, and as many for the test
LARGE = 1 / 32  # of the bytes: a document with more is not held out as a whole
MOST_BYTES = 1 << 24  # of each part: evaluating more takes minutes and tells no more


@dataclass(frozen=True)
class Parts:
    """The documents to train on, those for validation and those for the test.

    `left_out` is the number of paragraphs that are in no part, because they repeat validation or test text.
    """

    train: Iterable[str]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    left_out: int = 0

    @property
    def held_out(self) -> tuple[str, ...]:
        """All documents that are not trained on."""
        return self.validation + self.test

    @property
    def bytes_to_train(self) -> int:
        """Size of the documents to train on as UTF-8, in bytes."""
        return self.train.num_bytes if isinstance(self.train, Selection) else num_bytes(self.train)

    def excerpt(self, num_bytes: float) -> Iterator[str]:
        """Yield documents to train on of about `num_bytes` bytes at most, evenly spaced."""
        return evenly(self.train, min(num_bytes / max(self.bytes_to_train, 1), 1.0))

    def without_copies(self, held_out: Iterable[str], refusal: str) -> Parts:
        """Return the parts without paragraphs to train on that repeat `held_out`; InputError if nothing is left."""
        unseen, left_out = without_repeats(self.train, held_out)
        if not unseen.num_bytes:
            raise InputError(refusal)
        train = tuple(unseen) if isinstance(self.train, tuple) else unseen
        return replace(self, train=train, left_out=self.left_out + left_out)


class Pieces(NamedTuple):
    """What a document gives to each part: all of it to one, or a piece to each."""

    train: str = ""
    validation: str = ""
    test: str = ""


def split(documents: Iterable[str]) -> Parts:
    """Return the three parts of a text.

    A document with more than a 32nd of the bytes gives its last sixteenth to the test, and the sixteenth before that to
    validation. Other documents are held out whole, in the order of their hashes: for validation until it has a
    sixteenth of their bytes, then for the test. Equal documents stay together and count as one. Each held-out
    part of a long text has at most about 16 MiB. The documents are read twice. Raises InputError if there is too little
    text.
    """
    seen, hashes, sizes = DocumentPass(documents), array("d"), array("Q")
    for _, text in seen:
        hashes.append(hash_of(text))
        sizes.append(len(text.encode()))
    share = min(SHARE, MOST_BYTES / max(seen.num_bytes, 1))
    for_validation, for_test, to_cut = _choose(hashes, sizes, seen.num_bytes, share)
    validation, test, changed, left = list[str](), list[str](), dict[int, str | None](), seen.num_bytes
    for number, text in enumerate(documents):
        if number in for_validation:
            pieces = Pieces(validation=text)
        elif number in for_test:
            pieces = Pieces(test=text)
        elif number in to_cut:
            pieces = in_pieces(text, share)
        else:  # all of it is trained on
            continue
        changed[number] = pieces.train or None
        left -= len(text.encode()) - len(pieces.train.encode())
        validation += [pieces.validation] if pieces.validation else []
        test += [pieces.test] if pieces.test else []
    if not (left and validation and test):
        raise InputError(
            f"{format_bytes(seen.num_bytes)} of text is too little for three parts: to train on, for validation and "
            "for the test. Give more text."
        )
    return Parts(Selection(documents, changed, seen, left), tuple(validation), tuple(test))


def _choose(hashes: Sequence[float], sizes: Sequence[int], num_bytes: int, share: float) -> Iterator[set[int]]:
    """Yield the numbers of the documents for validation, for the test, and to cut."""
    large, small = list[_Copies](), list[_Copies]()
    for copies in _in_order(hashes, sizes):
        (large if copies.num_bytes > LARGE * num_bytes else small).append(copies)
    rest, wanted = iter(small), share * sum(copies.num_bytes for copies in small)
    for chosen in (_until(rest, wanted), _until(rest, wanted), large):
        yield {number for copies in chosen for number in copies.numbers}


def in_pieces(text: str, share: float = SHARE) -> Pieces:
    r"""Cut the end of a document off for validation and for the test, each about that share of it.

    A cut is moved back to a line break if there is one within half a share before it. A document too short for three
    pieces that are not blank is returned as a piece to train on.

    >>> in_pieces("line\n" * 32)[1:]
    ('line\nline\n', 'line\nline\n')
    """
    ends = [0]
    for place in (len(text) * (1 - 2 * share), len(text) * (1 - share)):
        earliest = max(ends[-1], int(place - len(text) * share / 2))
        ends.append(text.rfind("\n", earliest, int(place)) + 1 or int(place))
    pieces = Pieces(*(text[begin:end] for begin, end in itertools.pairwise([*ends, len(text)])))
    return pieces if all(piece.strip() for piece in pieces) else Pieces(train=text)


def first_by_hash(documents: Sequence[str], num_bytes: float) -> list[str]:
    """Return documents in the order of their hashes until they have `num_bytes`; equal documents stay together."""
    hashes, sizes = array("d", map(hash_of, documents)), array("Q", (len(text.encode()) for text in documents))
    return [documents[number] for copies in _until(_in_order(hashes, sizes), num_bytes) for number in copies.numbers]


def num_bytes(documents: Iterable[str]) -> int:
    """Return the size of the documents as UTF-8, in bytes.

    >>> num_bytes(["π", "pi"])
    4
    """
    return sum(len(text.encode()) for text in documents)


def hash_of(text: str) -> float:
    """Return a hash of a text as a number in [0, 1); the hashes of different texts are spread evenly."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def digest_of(texts: Iterable[str]) -> str:
    """Return a hash of some texts, as 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        digest.update(hashlib.blake2b(text.encode()).digest())  # of each: ["ab"] is not ["a", "b"]
    return digest.hexdigest()


class _Copies(NamedTuple):
    """The numbers of documents that are equal, and the bytes of all of them."""

    numbers: tuple[int, ...]
    num_bytes: int


def _in_order(hashes: Sequence[float], sizes: Sequence[int]) -> Iterator[_Copies]:
    """Yield the documents in the order of their hashes."""
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    for _, same in itertools.groupby(order, key=hashes.__getitem__):
        numbers = tuple(same)
        yield _Copies(numbers, sum(sizes[number] for number in numbers))


def _until(copies: Iterator[_Copies], num_bytes: float) -> Iterator[_Copies]:
    """Take from `copies` until `num_bytes` are taken."""
    taken = 0
    while taken < num_bytes and (each := next(copies, None)):
        taken += each.num_bytes
        yield each
