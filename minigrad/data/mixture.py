"""Several texts, each with its share of what is trained on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from minigrad.data import corpus, sources
from minigrad.data.corpus import Corpus


@dataclass(frozen=True)
class Mixture:
    """Texts, and by the same order their shares of the tokens that are read; the shares add up to 1."""

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
    def bytes_to_train(self) -> int:
        """Size of the documents to train on of all texts, as UTF-8, in bytes."""
        return sum(each.bytes_to_train for each in self.corpora)

    @property
    def num_documents(self) -> int:
        """The number of documents of all texts."""
        return sum(each.num_documents for each in self.corpora)

    @property
    def left_out(self) -> int:
        """The number of paragraphs that are not trained on, because they repeat held-out text."""
        return sum(each.left_out for each in self.corpora)

    def split(self) -> tuple[Iterator[str], tuple[str, ...]]:
        """Return (documents to train on, held-out documents) of all texts, one after the other, each as on its own.

        Held-out text that all have in common is there once. Errors are those of `Corpus.split`.
        """
        parts = [each.split() for each in self.corpora]
        held_out = itertools.chain.from_iterable(dict.fromkeys(part for _, part in parts))
        return itertools.chain.from_iterable(train for train, _ in parts), tuple(held_out)

    def sample(self) -> Iterator[str]:
        """Yield enough of the documents to train on to learn a vocabulary from."""
        return itertools.chain.from_iterable(each.sample() for each in self.corpora)


def load(data: str, *, held_out: str | None = None, progress: Callable[[str], None] | None = None) -> Corpus | Mixture:
    """Return one text, or several with weights (`minigrad.data.sources`); arguments and errors: see `corpus.load`."""
    shares = sources.parse(data)
    loaded = [corpus.load(name, held_out=held_out, progress=progress) for name in shares]
    return loaded[0] if len(loaded) == 1 else Mixture(tuple(loaded), tuple(shares.values()))
