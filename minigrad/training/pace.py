"""How long the parts of a run take on this machine, measured as it goes: another program may slow it at any time."""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

Item = TypeVar("Item")

_FEWEST, _LATELY = 5, 5  # steps in a mean, and measurements of other work in a median: single ones vary


class Pace:
    """The seconds of steps, and those of each other kind of work, such as an evaluation."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._steps = [0.0]  # the seconds of all steps so far, after each of them
        self._work: defaultdict[str, list[float]] = defaultdict(list)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Return a context that measures a step."""
        before = self.clock()
        yield
        self._steps.append(self._steps[-1] + self.clock() - before)

    @contextlib.contextmanager
    def work(self, kind: str) -> Iterator[None]:
        """Return a context that measures work of another kind."""
        before = self.clock()
        yield
        self._work[kind].append(self.clock() - before)

    def each(self, kind: str, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, and measure the mean time for which the caller works on one.

        The first does not count, if there are more: its memory is new, and the caches are cold.
        """
        times = [self.clock()]
        for item in items:
            yield item
            times.append(self.clock())
        first = 1 if len(times) > 2 else 0
        self._work[kind].append((times[-1] - times[first]) / max(len(times) - 1 - first, 1))

    @property
    def seconds_of_steps(self) -> float:
        """The seconds of all steps so far."""
        return self._steps[-1]

    def seconds_of(self, kind: str, otherwise: float) -> float:
        """Return the median of the seconds that work of a kind took lately, or `otherwise` if it was not done yet."""
        return statistics.median(self._work[kind][-_LATELY:] or [otherwise])

    def seconds_per_step(self, ahead: int, every: Mapping[str, int]) -> float:
        """Estimate the seconds of each of the steps `ahead` from those of as many before; 0 without a step.

        `every` holds how many steps there are for each work of another kind; a part of that work is added.
        """
        window = min(max(ahead, _FEWEST), len(self._steps) - 1)
        if not window:
            return 0.0
        steps = (self._steps[-1] - self._steps[-1 - window]) / window
        return steps + sum(self.seconds_of(kind, 0.0) / steps_between for kind, steps_between in every.items())
