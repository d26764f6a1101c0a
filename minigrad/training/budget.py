"""The length of a run: the clock may choose the number of steps, and nothing else.

A run that ends on time must read the clock; a run that can be repeated must not depend on it. Both hold if the clock
chooses integers only, each before the first step that depends on it: the number of steps, when the final decay of the
learning rate should begin, and a new number if the speed of the machine changes during the decay. A run with the same
integers gives the same weights, bit for bit.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from minigrad.errors import InputError
from minigrad.optim.schedules import decay_start, warmup_cosine, warmup_stable_decay
from minigrad.training.settings import ChosenOptimisation

_TOLERANCE = 0.01  # of the budget: the number of steps is left as it is while the run will end within it

Decay = Sequence[tuple[int, int]]
"""The course of the decay: pairs of a step and the number of steps that the run was to have from there on."""


class Budget:
    """The length of a run: steps, or seconds (of all processes that continue it) that become steps during the run."""

    def __init__(self, steps: int | None, seconds: float | None = None, decay: Decay = ()) -> None:
        self.steps, self.seconds = steps, seconds
        self.decay = list(decay) if decay or steps is None else [(decay_start(steps), steps)]
        self._next_look = 0, math.inf  # the step, or the seconds left, at which the number is corrected

    def learning_rate(self, step: int, settings: ChosenOptimisation) -> float:
        """Return the learning rate of a step, as the schedule of the settings has it."""
        if settings.schedule == "cosine":
            assert self.steps is not None
            return warmup_cosine(step, peak=settings.lr, warmup=settings.warmup, steps=self.steps)
        start, steps = next(iter(self.decay), (step + 1, step + 1))
        return warmup_stable_decay(
            step, peak=settings.lr, warmup=settings.warmup, decay_start=start, steps=steps, revised=self.decay[1:]
        )

    def decide(self, step: int, left: float, seconds_per_step: float) -> bool:
        """Choose the number of steps if the learning rate should begin to decay at `step` (0-based, about to run).

        The number is what the `left` seconds allow, raised if necessary so that the decay begins at `step`. During the
        decay it is corrected, each time half of the steps or of the seconds that were left are used. `seconds_per_step`
        is 0 before the first step is measured; then nothing is chosen. A continued run waits for several steps, because
        its first one is slow. Returns whether this call chose a number.
        """
        if self.seconds is None:
            return False
        if not seconds_per_step:
            if step:
                ahead = _FEWEST if self.steps is None else (self.steps - step) // 2
                self._next_look = step + ahead, left / 2
            return False
        if step < self._next_look[0] and left > self._next_look[1]:
            return False
        steps = step + max(int(left / seconds_per_step), 1)
        if self.steps is None:
            if step < decay_start(steps):
                return False
            # No step already taken may be part of the decay: the repeated run would give it another learning rate.
            while decay_start(steps) < step:
                steps += 1
        elif step <= self.decay[-1][0]:  # in a continued run: the steps up to there have their learning rates
            return False
        elif abs(steps - self.steps) * seconds_per_step < _TOLERANCE * self.seconds:
            steps = self.steps
        chosen = steps != self.steps
        if chosen:
            self.steps = steps
            self.decay.append((step, steps))
        self._next_look = step + max((steps - step) // 2, 1), left / 2
        return chosen

    def share(self, step: int, elapsed: float) -> float:
        """Return the used share of the budget, from 0 to 1."""
        share = step / self.steps if self.steps else elapsed / self.seconds if self.seconds else 0.0
        return min(share, 1.0)

    def seconds_left(self, step: int, left: float, seconds_per_step: float) -> float:
        """Return how much longer the steps will take, if `left` seconds of the budget are left for them."""
        return max(left, 0.0) if self.steps is None else (self.steps - step) * seconds_per_step


def read_decay(text: str | None, steps: int | None) -> Decay:
    """Read the course of the decay of a run of `steps` steps from "START:STEPS,START:STEPS,...".

    Raises InputError for any other text; an empty one means the default decay: the last fifth of the steps.
    """
    if not text:
        return []
    try:
        decay = [(int(start), int(end)) for start, end in (part.split(":") for part in text.split(","))]
    except ValueError:
        raise InputError(f"--decay takes START:STEPS,START:STEPS,... in whole numbers, not {text!r}") from None
    turns = itertools.pairwise(decay)
    if any(not 0 <= start < end for start, end in decay) or any(not one[0] < two[0] < one[1] for one, two in turns):
        raise InputError(f"--decay {text}: each START must be below its STEPS, and between the START and STEPS before")
    if decay[-1][1] != steps:
        raise InputError(f"--decay {text} ends at step {decay[-1][1]:,}, so it needs --steps {decay[-1][1]}")
    return decay


def write_decay(decay: Decay) -> str | None:
    """Return the course of a decay as `read_decay` reads it; None if it is the last fifth of the steps."""
    is_usual = all(start == decay_start(steps) for start, steps in decay[:1]) and len(decay) < 2
    return None if is_usual else ",".join(f"{start}:{steps}" for start, steps in decay)


Item = TypeVar("Item")

_FEWEST, _LATELY = 5, 5  # steps in a mean, and measurements of other work in a median: single ones vary
_MOST_STEPS = 1 << 16  # remembered: the rest of a longer run is estimated from these


class Pace:
    """The seconds of steps, and those of each other kind of work, such as an evaluation."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._steps = deque([0.0], _MOST_STEPS)  # the seconds of all steps so far, after each of them
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
        """Yield the items, and measure the mean time for which the caller works on one."""
        times = [self.clock()]
        for item in items:
            yield item
            times.append(self.clock())
        first = 1 if len(times) > 2 else 0  # it does not count: its memory is new, and the caches are cold
        self._work[kind].append((times[-1] - times[first]) / max(len(times) - 1 - first, 1))

    @property
    def seconds_of_steps(self) -> float:
        """The seconds of all steps so far."""
        return self._steps[-1]

    def seconds_of(self, kind: str, otherwise: float) -> float:
        """Return the median of the seconds that work of a kind took recently, or `otherwise` if none was done."""
        return statistics.median(self._work[kind][-_LATELY:] or [otherwise])

    def seconds_per_step(self, ahead: int, every: Mapping[str, int]) -> float:
        """Estimate the seconds of each of the steps `ahead` from the same number of previous steps; 0 without a step.

        `every` holds how many steps there are for each work of another kind; a part of that work is added.
        """
        measured = len(self._steps) - 1
        if not measured:
            return 0.0
        warm = max(measured - 1, 1)  # without the first: its memory is new, and the caches are cold
        window = min(max(ahead, _FEWEST), warm)
        steps = (self._steps[-1] - self._steps[-1 - window]) / window
        return steps + sum(self.seconds_of(kind, 0.0) / steps_between for kind, steps_between in every.items())
