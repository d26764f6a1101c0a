"""How a flat array is divided among processes, where each process updates its share alone (ZeRO, stage 1).

Each of N processes updates one N-th of the parameters, and keeps the moments of these only; then all get the updated
parameters from their owners (Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion parameter
models", arXiv 1910.02054, section 5.1). As much is sent as by an all-reduce of gradients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def even_cuts(span: slice, count: int) -> list[int]:
    """Return where `count` shares of a range begin that differ by at most one element, and where the last one ends."""
    size = span.stop - span.start
    return [span.start + size * number // count for number in range(count + 1)]


def cuts_between(places: Sequence[slice], costs: Sequence[float], count: int) -> list[int]:
    """Return where `count` shares of about equal cost begin if none of the adjacent `places` may be cut.

    Each cut is the border between two places at which the cost so far is nearest to an equal share. Some shares are
    empty if there are fewer places than shares.

    >>> cuts_between([slice(0, 4), slice(4, 6), slice(6, 8), slice(8, 12)], [4, 2, 2, 4], 2)
    [0, 6, 12]
    """
    borders = [places[0].start, *(place.stop for place in places)]
    before = np.concatenate([[0.0], np.cumsum(costs)])
    wanted = before[-1] * np.arange(1, count) / count
    nearest = np.abs(before[:, None] - wanted).argmin(axis=0)
    return [borders[0], *(borders[index] for index in nearest), borders[-1]]


def overlap(one: slice, other: slice) -> slice:
    """Return the range that two ranges have in common; it is empty if they have none."""
    start = max(one.start, other.start)
    return slice(start, max(start, min(one.stop, other.stop)))
