"""How the products of attention are computed: the choice of the matmul backend, and what the values allow.

The loops of attention are always our own. Where products of float32 are split into three bfloat16 parts
(`minigrad.kernels.gemm.backend`), so are those of attention, unless a value is infinite, NaN or extreme; with `blas`
and for float64 nothing is split. In bfloat16 the factors of all five products are rounded.

The choice is part of the arguments of the compiled loops: the type of `packed` selects the loops, so that no product
depends on an earlier choice.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from minigrad.kernels.gemm.backend import rounds, splits
from minigrad.typing import Array


class Arithmetic(NamedTuple):
    """How packed factors are stored and multiplied."""

    packed: Array  # empty, of the type of packed factors: words of three bfloat16 parts (uint32), or elements
    rounding: bool  # whether factors are rounded to bfloat16


def arithmetic_for(*factors: Array) -> Arithmetic:
    """Return the arithmetic of attention for these factors, which have one type."""
    kind = factors[0].dtype
    words = splits(kind) and is_moderate(*factors)
    return Arithmetic(np.empty(0, np.uint32 if words else kind), rounds(kind))


def is_moderate(*factors: Array) -> bool:
    """Return whether three bfloat16 parts hold what attention multiplies, in relation to the largest elements.

    A gradient is a sum of products of one element of each factor. If the product of their largest elements is between
    2^-96 and 2^100, no sum overflows, and what the tile registers take for zero, below 2^-126, is 2^-30 of it.
    """
    exponents = []
    for x in factors:
        largest = float(max(x.max(initial=0), -x.min(initial=0)))
        if not math.isfinite(largest):
            return False
        exponents.append(math.frexp(largest)[1])
    return sum(min(each, 0) for each in exponents) >= -96 and sum(max(each, 0) for each in exponents) <= 100
