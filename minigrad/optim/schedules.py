"""Learning-rate schedules. Each is a function of the step and the settings alone, so a run can be repeated exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence


def warmup_stable_decay(
    step: int,
    *,
    peak: float,
    warmup: int,
    decay_start: int,
    steps: int,
    revised: Sequence[tuple[int, int]] = (),
) -> float:
    r"""Warm up linearly, stay at the peak p, then decay to zero as $p (1 - \sqrt{x})$ over the last part.

    Hägele et al. 2024, "Scaling laws and compute-optimal training beyond fixed training durations", arXiv 2405.18392:
    as good as a cosine, and the number of steps need not be known before the decay begins.
    `step` counts from 0; the first step already has the rate peak / warmup. Where a warm-up is not over when the decay
    begins, the smaller rate of the two counts, so the rate never jumps. Each pair in `revised` is a step of the decay
    and a new number of steps from there on: the rest of the decay becomes shorter or longer.

    >>> [round(warmup_stable_decay(s, peak=1.0, warmup=2, decay_start=4, steps=8), 2) for s in range(8)]
    [0.5, 1.0, 1.0, 1.0, 0.55, 0.37, 0.23, 0.11]
    >>> [round(warmup_stable_decay(s, peak=1.0, warmup=2, decay_start=4, steps=8, revised=[(6, 7)]), 2) for s in (5, 6)]
    [0.37, 0.16]
    >>> [round(warmup_stable_decay(s, peak=1.0, warmup=5, decay_start=2, steps=5), 2) for s in range(5)]
    [0.2, 0.4, 0.5, 0.29, 0.13]
    """
    warmed = peak * (step + 1) / warmup if step < warmup else peak
    if step < decay_start:
        return warmed
    before, start, end = 0.0, decay_start, steps  # `before` is the part of the decay that is over at `start`
    for new_start, new_end in revised:
        if step < new_start:
            break
        before += (1 - before) * (new_start - start) / (end - start + 1)
        start, end = new_start, new_end
    elapsed = before + (1 - before) * ((step - start + 1) / (end - start + 1))
    return min(warmed, peak * (1 - math.sqrt(min(elapsed, 1.0))))


def warmup_cosine(step: int, *, peak: float, warmup: int, steps: int, floor: float = 0.0) -> float:
    r"""Warm up linearly, then decay as half a cosine to `floor` (Loshchilov and Hutter 2017, arXiv 1608.03983, eq. 5).

    From the peak p to the floor f, with x the share of the steps after the warm-up that is over:
    $f + (p - f) (1 + \cos \pi x) / 2$. `step` counts from 0. The first step already has the rate peak / warmup, because
    a rate of zero would waste it; step `warmup` - 1 has the peak, and the last step of the run, `steps` - 1, the floor.

    >>> [round(warmup_cosine(s, peak=1.0, warmup=2, steps=6, floor=0.1), 2) for s in range(6)]
    [0.5, 1.0, 0.87, 0.55, 0.23, 0.1]
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    fraction = min((step - warmup + 1) / max(steps - warmup, 1), 1.0)
    return floor + (peak - floor) * (1 + math.cos(math.pi * fraction)) / 2


def decay_start(steps: int) -> int:
    """Return the step at which the decay of a run of `steps` steps begins: its last fifth, rounded up."""
    return steps - math.ceil(steps * 0.2)
