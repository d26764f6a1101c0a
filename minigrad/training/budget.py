"""The length of a run: the clock may choose the number of steps, and nothing else.

A run that ends on time must read the clock; a run that can be repeated must not depend on it. Both hold if the clock
chooses integers only, each before the first step that depends on it: the number of steps, when the final decay of the
learning rate should begin, and a new number if the speed of the machine changes during the decay. A run with the same
integers gives the same weights, bit for bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from minigrad.errors import InputError
from minigrad.optim.schedules import decay_start, warmup_cosine, warmup_stable_decay
from minigrad.training.settings import ChosenOptimisation

_TOLERANCE = 0.01  # of the budget: the number of steps is left as it is while the run will end within it

Decay = Sequence[tuple[int, int]]
"""The course of the decay: pairs of a step and the number of steps that the run was to have from there on."""


class Budget:
    """The length of a run: a number of steps, or seconds that become a number of steps during the run.

    `seconds` is the time of the whole run, from its start, over all processes that continue it. `decay` is the course
    of the decay if it was already chosen; of `steps` steps without it, the last fifth.
    """

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

    @classmethod
    def of(cls, steps: int | None, minutes: float | None, decay: str | None) -> Budget:
        """Return the budget of settings; raises InputError if `decay` is not the course of that of `steps` steps."""
        return cls(steps, None if minutes is None else 60 * minutes, read_decay(decay, steps))

    def decide(self, step: int, left: float, seconds_per_step: float) -> bool:
        """Choose the number of steps if the learning rate should begin to decay at `step` (0-based, about to run).

        The number is what the `left` seconds allow, raised if necessary so that the decay begins at `step`. During the
        decay it is corrected, each time half of the steps or of the seconds that were left are used. `seconds_per_step`
        is 0 before the first step is measured; then nothing is chosen. Returns whether this call chose a number.
        """
        if self.seconds is None or not seconds_per_step or (step < self._next_look[0] and left > self._next_look[1]):
            return False
        steps = step + max(int(left / seconds_per_step), 1)
        if self.steps is None:
            if step < decay_start(steps):
                return False
            # No step already taken may be part of the decay: the repeated run would give it another learning rate.
            while decay_start(steps) < step:
                steps += 1
            self._choose(step, steps, left)
            return True
        if step <= self.decay[-1][0]:  # in a continued run: the steps up to there have their learning rates
            return False
        if abs(steps - self.steps) * seconds_per_step < _TOLERANCE * self.seconds:
            self._next_look = step + max((self.steps - step) // 2, 1), left / 2
            return False
        self._choose(step, steps, left)
        return True

    def _choose(self, step: int, steps: int, left: float) -> None:
        self.steps = steps
        self.decay.append((step, steps))
        self._next_look = step + max((steps - step) // 2, 1), left / 2

    def share(self, step: int, elapsed: float) -> float:
        """Return the used share of the budget, from 0 to 1."""
        share = step / self.steps if self.steps else elapsed / self.seconds if self.seconds else 0.0
        return min(share, 1.0)

    def seconds_left(self, step: int, left: float, seconds_per_step: float) -> float:
        """Return how much longer the steps will take, if `left` seconds of the budget are left for them."""
        if self.steps is not None:
            return (self.steps - step) * seconds_per_step
        return max(left, 0.0)


def read_decay(text: str | None, steps: int | None) -> Decay:
    """Read the course of the decay of a run of `steps` steps from "START:STEPS,START:STEPS,...".

    Raises InputError for any other text. An empty string means the default decay: the last fifth of the steps.

    >>> read_decay("800:1000,900:950", 950)
    [(800, 1000), (900, 950)]
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
