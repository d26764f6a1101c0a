"""How much text several texts amount to when they are read with different shares."""

from __future__ import annotations

from collections.abc import Sequence


def length_as_one(shares: Sequence[float], lengths: Sequence[int]) -> float:
    r"""Return the length of a single text that would be read as often, on average, as several texts together.

    A run that reads D tokens takes $s_i D$ of them from text i, whose length is $U_i$, and reads it $s_i D / U_i$
    times. So an average token of the run is read $D / U$ times, with $1 / U = \sum_i s_i^2 / U_i$. If the shares
    are those of the lengths, U is the sum of the lengths; a short text with a large share makes it shorter. An empty
    text counts as one of length 1.

    >>> length_as_one([0.25, 0.75], [100, 300])
    400.0
    >>> round(length_as_one([0.8, 0.2], [100, 400]))
    154
    """
    return 1 / sum(share**2 / max(length, 1) for share, length in zip(shares, lengths, strict=True))
