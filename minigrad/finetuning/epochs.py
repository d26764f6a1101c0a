"""Epochs: in each, every sequence is read once, uncut, in a random order."""

from __future__ import annotations

from minigrad.random import generator
from minigrad.typing import Array


class EpochSource:
    """The part of a `Source` that depends only on the lengths (sequences,) of its sequences.

    A step has room for `batch_size` times the context. An epoch has as many steps as it needs, each with about equally
    many sequences. No length exceeds the room, so every step has at least one sequence.
    """

    unit = "conversations"  # the name of the sequences
    least = 1  # contexts for which a step always has room

    def __init__(self, lengths: Array, context: int) -> None:
        self.lengths, self.context = lengths, context

    def steps_per_epoch(self, batch_size: int) -> int:
        """Return the number of steps of an epoch."""
        return -(-int(self.lengths.sum()) // (max(self.least, batch_size) * self.context))

    def chosen(self, seed: int, step: int, batch_size: int) -> Array:
        """Return the numbers of the sequences of a step, a function of seed and step."""
        (epoch, first), (_, last) = self._place(step, batch_size), self._place(step + 1, batch_size)
        return self._order(seed, epoch)[first : last or None]

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens read before step `step`."""
        epoch, begun = self._place(step, batch_size)
        return int(epoch * self.lengths.sum() + self.lengths[self._order(seed, epoch)[:begun]].sum())

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens of an epoch."""
        return int(self.lengths.sum())

    def attended_length(self) -> float:
        """Return the mean length, weighted by tokens."""
        return float((self.lengths**2).sum() / self.lengths.sum())

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words."""
        number = len(self.lengths) / self.steps_per_epoch(batch_size)
        return f": about {number:.2g} {self.unit}" if number < 10 else f": about {number:,.0f} {self.unit}"

    def _place(self, step: int, batch_size: int) -> tuple[int, int]:
        """Return the epoch of a step, and the number of sequences before it in the epoch."""
        steps = self.steps_per_epoch(batch_size)
        epoch, part = divmod(step, steps)
        return epoch, part * len(self.lengths) // steps

    def _order(self, seed: int, epoch: int) -> Array:
        return generator(seed, "lesson order", epoch).permutation(len(self.lengths))
