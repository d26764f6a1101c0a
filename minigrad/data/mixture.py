"""Several texts, each with its share of the training tokens."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from minigrad.data import corpus
from minigrad.data.corpus import Corpus
from minigrad.data.shares import length_as_one
from minigrad.data.split import LARGEST_SAMPLE, Parts, num_bytes
from minigrad.errors import InputError
from minigrad.system.units import format_bytes

SMALLEST_SHARE = 1e-4
_MOST_READINGS = 4.0  # of a text from which a vocabulary is learned


@dataclass(frozen=True)
class Mixture:
    """Texts and, in the same order, their shares of the tokens that are read; the shares add up to 1."""

    corpora: tuple[Corpus, ...]
    shares: tuple[float, ...]

    @property
    def name(self) -> str:
        """The names of the texts with their shares, in percent."""
        return ", ".join(
            f"{100 * share:.3g}% {each.name}" for share, each in zip(self.shares, self.corpora, strict=True)
        )

    @property
    def description(self) -> str:
        """What the texts are, in words."""
        return f"{len(self.corpora)} texts"

    @property
    def validation_text(self) -> str:
        """What the validation text that all texts have in common is, in words; "" if each has its own."""
        return self.corpora[0].validation_text

    @property
    def bytes_to_train(self) -> int:
        """Size of the documents to train on of all texts, as UTF-8, in bytes."""
        return sum(each.bytes_to_train for each in self.parts)

    @property
    def bytes_as_one(self) -> float:
        """The size of a single text that would be read as often, in bytes (`length_as_one`)."""
        return length_as_one(self.shares, [each.bytes_to_train for each in self.parts])

    @property
    def num_documents(self) -> int:
        """The number of documents of all texts."""
        return sum(each.num_documents for each in self.corpora)

    @functools.cached_property
    def parts(self) -> tuple[Parts, ...]:
        """The parts of each text, split by itself; no paragraph that another text holds out is trained on.

        Raises InputError as `Corpus.split` does, and for a text that then has no document left to train on.
        """
        found = [each.split() for each in self.corpora]
        known = dict.fromkeys(text for parts in found for text in parts.held_out)
        return tuple(_without(parts, known) for parts in found)

    def split(self) -> Parts:
        """Return the parts of all texts, one text after the other; a part that all have in common is there once."""
        validation, test = (
            tuple(itertools.chain.from_iterable(dict.fromkeys(each)))
            for each in ([parts.validation for parts in self.parts], [parts.test for parts in self.parts])
        )
        train = _Chained(tuple(parts.train for parts in self.parts))
        return Parts(train, validation, test, sum(parts.left_out for parts in self.parts))

    def sample(self) -> Iterator[str]:
        """Yield documents to learn a vocabulary from, in the shares in which the texts are read.

        A text that is short for its share is read again, as in training, but not more than four times.
        """
        sizes = [min(each.bytes_to_train, LARGEST_SAMPLE) for each in self.parts]
        for parts, share, size in zip(self.parts, self.shares, sizes, strict=True):
            times = min(share * sum(sizes) / max(size, 1), _MOST_READINGS)
            for whole in range(math.ceil(times)):
                yield from parts.excerpt(min(times - whole, 1.0) * size)

    def excerpt(self, num_bytes: int) -> Iterator[str]:
        """Yield documents to train on of about `num_bytes` bytes at most, evenly spaced in each text, in the shares."""
        for parts, share in zip(self.parts, self.shares, strict=True):
            yield from parts.excerpt(share * num_bytes)


@dataclass(frozen=True)
class _Chained:
    """Texts one after the other, as often as they are read."""

    texts: tuple[Iterable[str], ...]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(self.texts)


def _without(parts: Parts, held_out: Iterable[str]) -> Parts:
    """Return the parts of a text without the paragraphs to train on that other texts have in `held_out`."""
    own = set(parts.held_out)
    others = [text for text in held_out if text not in own]
    refusal = "all that one of the texts would be trained on, another holds out; give one of them alone"
    return parts.without_copies(others, refusal) if others else parts


def load(data: str, *, held_out: str | None = None, progress: Callable[[str], None] | None = None) -> Corpus | Mixture:
    """Return one text, or several with weights (`parse_shares`); `held_out` names the text to judge by, if another.

    Other arguments and errors: see `corpus.load`.
    """
    shares = parse_shares(data)
    other = None if held_out is None else corpus.read_held_out(held_out, progress)  # once: it may be a pipe
    loaded = [corpus.load(name, held_out=other, progress=progress) for name in shares]
    return loaded[0] if len(loaded) == 1 else Mixture(tuple(loaded), tuple(shares.values()))


def check_enough(text: Corpus | Mixture, *, test: bool = False) -> None:
    """Raise InputError if there is less text to train on than for validation, or none for a `test` that is wanted."""
    train, validation = text.bytes_to_train, num_bytes(text.split().validation)
    if train < validation:
        raise InputError(
            f"{text.name} has {format_bytes(train)} to train on, less than the {format_bytes(validation)} held out for "
            "validation: give more text to train on, or --held-out a shorter one."
        )
    if test and not text.split().test:
        raise InputError(
            "--held-out is all for validation, which leaves no text for --test: leave out one of them, or evaluate the "
            "run later on a text that it has not seen (python -m minigrad.evaluate RUN --data TEXT)"
        )


def identities(data: str, folder: str = "") -> dict[str, float]:
    """Return the shares of the texts in `data`; a file counts as one text however its path is spelled.

    Relative paths begin in `folder`: see `corpus.identity`.
    """
    return {corpus.identity(name, folder): share for name, share in parse_shares(data).items()}


def parse_shares(data: str, flag: str = "--data") -> dict[str, float]:
    """Return the shares of the texts in `data` by their names; they add up to 1. A single text needs no weight.

    A weight follows the last colon of a name, so an address may hold colons; a name with a comma in it cannot
    have one. Raises InputError, which names the `flag` that was given, for a weight that is not a number above 0, for a
    text without a weight or with two, and for a share below a ten-thousandth.

    >>> parse_shares("wiki.txt:3,code:1"), parse_shares("wiki.txt")
    ({'wiki.txt': 0.75, 'code': 0.25}, {'wiki.txt': 1.0})
    """
    parts = [part.strip() for part in data.split(",")]
    are_several = any(part in corpus.NAMES or _has_weight(part) or corpus.exists(part) for part in parts)
    if len(parts) < 2 or corpus.exists(data) or not are_several:
        return {data: 1.0}
    weights = dict[str, float]()
    for part in parts:
        name, _, weight = part.rpartition(":")
        if not name:
            missing = "name" if part.startswith(":") else "weight"
            raise InputError(f"{flag} {data}: {part!r} has no {missing}; expected NAME:WEIGHT,NAME:WEIGHT,...")
        if not _is_number(weight) or not 0 < float(weight) < math.inf:
            raise InputError(f"{flag} {data}: the weight of {name} is {weight!r}; expected a number above 0")
        if corpus.identity(name) in map(corpus.identity, weights):
            raise InputError(f"{flag} {data}: {name} is given twice; give it once, with the sum of its weights")
        weights[name] = float(weight)
    total = sum(weights.values())
    shares = {name: weight / total for name, weight in weights.items()}
    for name, share in shares.items():
        if share < SMALLEST_SHARE:
            raise InputError(f"{flag} {data}: the share of {name} is {share:.2g}; expected at least {SMALLEST_SHARE:g}")
    return shares


def _has_weight(part: str) -> bool:
    """Whether a name is followed by a colon and anything, or an address by a colon and a number."""
    name, _, weight = part.rpartition(":")
    return bool(name) and (_is_number(weight) or not part.startswith(("http://", "https://")))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
