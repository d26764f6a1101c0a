"""The moving average of a model's weights: evaluated and kept in place of the last weights.

Single steps overshoot this way and that, and their average lies between (Polyak and Juditsky 1992, "Acceleration of
stochastic approximation by averaging"). A decaying learning rate does much the same, so the two gain little together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.kernels import threads
from minigrad.optim.flat import segments
from minigrad.options import checked_number
from minigrad.typing import Array

_TOGETHER = 1 << 16  # elements that are mixed or exchanged at a time: they stay in the cache
_WORK = 4 * _TOGETHER  # element operations of a piece


class WeightAverage:
    r"""The exponential moving average of parameters after each step, $a_t = \sum_s \mu^{t-s} w_s / \sum_s \mu^{t-s}$.

    Computed as $a \leftarrow a + \frac{1 - \mu}{1 - \mu^t} (w - a)$: with the correction of Kingma and Ba 2015, "Adam",
    section 7.2, the initial weights do not count. With a `decay` $\mu$ of 0.999 about the last thousand steps count.
    Parameters that require no gradient are left out, and must stay as they are. Raises InputError unless
    0 <= decay < 1.
    """

    def __init__(self, parameters: Iterable[Tensor], decay: float) -> None:
        self.decay = checked_number("the decay of an average of weights", decay, at_least=0, below=1)
        self._trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._segments = segments(self._trained)
        self._are_in_place = False
        self._flat = [np.zeros_like(segment.data) for segment in self._segments]

    def __getstate__(self) -> NoReturn:
        raise InputError("an average belongs to the memory of its parameters and has no copy; make one of the copies")

    def update(self, step: int) -> None:
        """Add the weights after a step to the average; `step` is the number of steps taken so far, at least 1."""
        share = (1 - self.decay) / (1 - self.decay**step)

        def mix(average: Array, weights: Array) -> None:
            average += average.dtype.type(share) * (weights - average)

        self._each(mix)

    def values(self) -> list[Array]:
        """Return the average of each parameter that requires a gradient, in their order and shapes; not copies."""
        members = (id(each) for segment in self._segments for each in segment.members)
        views = (view for s, flat in zip(self._segments, self._flat, strict=True) for view in s.views(flat))
        found = dict(zip(members, views, strict=True))
        return [found[id(parameter)] for parameter in self._trained]

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the parameters be their averages inside the block, even if it lies within another such block."""
        if self._are_in_place:
            yield
            return
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        def exchange(average: Array, weights: Array) -> None:
            kept = weights.copy()
            weights[...] = average
            average[...] = kept

        self._each(exchange)
        self._are_in_place = not self._are_in_place
        for parameter in self._trained:
            parameter.version.count += 1

    def _each(self, change: Callable[[Array, Array], None]) -> None:
        """Call `change` with pieces of the averages and of the weights; threads share them."""
        for segment, flat in zip(self._segments, self._flat, strict=True):

            def change_some(start: int, stop: int, average: Array = flat, weights: Array = segment.data) -> None:
                for place in (slice(piece * _TOGETHER, (piece + 1) * _TOGETHER) for piece in range(start, stop)):
                    change(average[place], weights[place])

            threads.over_rows(change_some, -(-flat.size // _TOGETHER), _WORK)
