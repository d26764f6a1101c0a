"""Epochs: every sequence is read once in each, whole, in a random order."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.random import generator
from minigrad.typing import Array


@dataclass(frozen=True)
class Epochs:
    """Sequences of these lengths (sequences,), divided into steps of `room` tokens each, on average.

    An epoch has as many steps as it needs, each with about equally many sequences. No length exceeds the room, so every
    step has some. The sequences of a step are a function of seed and step.
    """

    lengths: Array
    room: int

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps of an epoch."""
        return -(-int(self.lengths.sum()) // self.room)

    def chosen(self, seed: int, step: int) -> Array:
        """Return the numbers of the sequences of a step."""
        (epoch, first), (_, last) = self._place(step), self._place(step + 1)
        return self._order(seed, epoch)[first : last or None]

    def tokens_before(self, seed: int, step: int) -> int:
        """Return the number of tokens in the sequences of the steps before `step`."""
        epoch, begun = self._place(step)
        return int(epoch * self.lengths.sum() + self.lengths[self._order(seed, epoch)[:begun]].sum())

    def _place(self, step: int) -> tuple[int, int]:
        """Return the epoch of a step, and the number of sequences before it in the epoch."""
        epoch, part = divmod(step, self.steps_per_epoch)
        return epoch, part * len(self.lengths) // self.steps_per_epoch

    def _order(self, seed: int, epoch: int) -> Array:
        return generator(seed, "lesson order", epoch).permutation(len(self.lengths))


class EpochSource:
    """The part of a `Source` that depends only on the lengths (sequences,) of its sequences; `unit` names them.

    A step has room for `batch_size` times the context, and for `least` contexts at least.
    """

    unit, least = "conversations", 1

    def __init__(self, lengths: Array, context: int) -> None:
        self.lengths, self.context = lengths, context

    def epochs(self, batch_size: int) -> Epochs:
        """Return the epochs in steps of that size."""
        return Epochs(self.lengths, max(self.least, batch_size) * self.context)

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens read before step `step`."""
        return self.epochs(batch_size).tokens_before(seed, step)

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens of an epoch."""
        return int(self.lengths.sum())

    def attended_length(self) -> float:
        """Return the mean length, weighted by tokens."""
        return float((self.lengths**2).sum() / self.lengths.sum())

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words."""
        return f": about {len(self.lengths) / self.epochs(batch_size).steps_per_epoch:.2g} {self.unit}"
