"""A hint to the processor changes nothing: not the array, and nothing behind its end."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.codegen.prefetch import prefetch
from minigrad.kernels.jit import kernel
from minigrad.typing import Array


@kernel
def _sum_after_asking(x: Array) -> float:
    prefetch(x)
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return total


@pytest.mark.parametrize("size", [0, 1, 33])
def test_only_the_time_differs(size: int) -> None:
    x = np.arange(float(size))
    assert _sum_after_asking(x) == x.sum()
    assert x.tolist() == list(range(size))
    prefetch(x)
