"""A hint to the processor changes nothing: not the array, and nothing behind its end."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from minigrad.kernels.codegen.prefetch import line_of, prefetch
from minigrad.typing import Array


@numba.njit
def _sum_after_asking(x: Array) -> float:
    prefetch(x)
    return x.sum()


@pytest.mark.parametrize("size", [0, 1, 33])
def test_only_the_time_differs(size: int) -> None:
    x = np.arange(float(size))
    assert _sum_after_asking(x) == x.sum()
    assert x.tolist() == list(range(size))
    prefetch(x)


@pytest.mark.parametrize(("machine", "bytes_"), [(("Darwin", "arm64"), 128), (("Linux", "aarch64"), 64)])
def test_the_lines_of_apples_processors_are_longer(machine: tuple[str, str], bytes_: int) -> None:
    assert line_of(*machine) == bytes_
    assert line_of("Darwin", "x86_64") == 64
