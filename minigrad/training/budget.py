"""The length of a run: the clock may choose the number of steps, and nothing else.

A run that ends on time must read the clock; a run that can be repeated must not depend on it. Both hold if the clock
chooses a single integer, once: at the time when the final decay of the learning rate should begin, the number of steps
is fixed. A run of that number of steps gives the same weights, bit for bit.
"""

from __future__ import annotations

from minigrad.optim.schedules import decay_start


class Budget:
    """The length of a run: a number of steps, or seconds that become a number of steps during the run.

    `seconds` is the time of the whole run, from its start, over all processes that continue it; `reserve` of it is kept
    for what follows the last step.
    """

    def __init__(self, steps: int | None, seconds: float | None = None, reserve: float = 0.0) -> None:
        self.steps, self.seconds, self.reserve = steps, seconds, reserve

    def decide(self, step: int, elapsed: float, seconds_per_step: float) -> bool:
        """Fix the number of steps if the learning rate should begin to decay at `step` (0-based, about to run).

        The number is what the remaining time allows, raised if necessary so that the decay begins at `step`. `elapsed`
        are the seconds that the run has used so far. `seconds_per_step` is 0 before the first step is measured; then
        nothing is fixed. Returns whether the number was fixed by this call.
        """
        if self.steps is not None or self.seconds is None or not seconds_per_step:
            return False
        left = self.seconds - self.reserve - elapsed
        steps = max(step + int(left / seconds_per_step), step + 1)
        if step < decay_start(steps):
            return False
        # No step already taken may be part of the decay: the repeated run would give it another learning rate.
        while decay_start(steps) < step:
            steps += 1
        self.steps = steps
        return True

    def share(self, step: int, elapsed: float) -> float:
        """Return the used share of the budget, from 0 to 1."""
        share = step / self.steps if self.steps else elapsed / self.seconds if self.seconds else 0.0
        return min(share, 1.0)

    def seconds_left(self, step: int, elapsed: float, seconds_per_step: float) -> float:
        """Return how much longer the steps will take."""
        if self.steps is not None:
            return (self.steps - step) * seconds_per_step
        return max((self.seconds or 0.0) - self.reserve - elapsed, 0.0)
