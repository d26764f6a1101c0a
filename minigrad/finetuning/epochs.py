"""Dealing sequences out to steps: each once in an epoch, in a random order, and none of them cut."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.random import generator
from minigrad.typing import Array


@dataclass(frozen=True)
class Epochs:
    """Sequences of these lengths (sequences,), dealt to steps that have `room` tokens each, on average.

    An epoch has as many steps as it needs, and each gets about equally many sequences. No length exceeds the room, so
    every step gets some. What a step gets is a function of seed and step.
    """

    lengths: Array
    room: int

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps in which every sequence is dealt once."""
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
        """Return the epoch of a step, and how many sequences of the epoch were dealt before it."""
        epoch, part = divmod(step, self.steps_per_epoch)
        return epoch, part * len(self.lengths) // self.steps_per_epoch

    def _order(self, seed: int, epoch: int) -> Array:
        return generator(seed, "lesson order", epoch).permutation(len(self.lengths))
