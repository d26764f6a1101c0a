"""The names of several texts with their weights, as in ``--data wiki:0.7,code:0.3``."""

from __future__ import annotations

import math
import os

from minigrad.errors import InputError

SMALLEST_SHARE = 1e-4


def parse(data: str) -> dict[str, float]:
    """Return the shares of the texts in `data` by their names; they add up to 1. A single text needs no weight.

    A weight stands behind the last colon of a name, so an address may hold colons; a name with a comma in it cannot
    have one. Raises InputError for a weight that is no number above 0, for a text without a weight or with two, and
    for a share below a ten-thousandth.

    >>> parse("wiki.txt:3,code:1"), parse("wiki.txt")
    ({'wiki.txt': 0.75, 'code': 0.25}, {'wiki.txt': 1.0})
    """
    parts = [part.strip() for part in data.split(",")]
    if len(parts) < 2 or _exists(data) or not (any(map(_has_weight, parts)) or any(map(_exists, parts))):
        return {data: 1.0}
    weights = dict[str, float]()
    for part in parts:
        name, _, weight = part.rpartition(":")
        if not name:
            missing = "name" if part.startswith(":") else "weight"
            raise InputError(f"--data {data}: {part!r} has no {missing}; expected NAME:WEIGHT,NAME:WEIGHT,...")
        if not _is_number(weight) or not 0 < float(weight) < math.inf:
            raise InputError(f"--data {data}: the weight of {name} is {weight!r}; expected a number above 0")
        if name in weights:
            raise InputError(f"--data {data}: {name} stands there twice; give it once, with the sum of its weights")
        weights[name] = float(weight)
    total = sum(weights.values())
    shares = {name: weight / total for name, weight in weights.items()}
    for name, share in shares.items():
        if share < SMALLEST_SHARE:
            raise InputError(f"--data {data}: the share of {name} is {share:.2g}; expected at least {SMALLEST_SHARE:g}")
    return shares


def _exists(name: str) -> bool:
    # Unlike Path.exists, this is False for what cannot be a path at all, such as a whole text.
    return os.path.exists(name)  # noqa: PTH110


def _has_weight(part: str) -> bool:
    """Whether a name is followed by a colon and anything, or an address by a colon and a number."""
    name, _, weight = part.rpartition(":")
    return bool(name) and (_is_number(weight) or not part.startswith(("http://", "https://")))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
