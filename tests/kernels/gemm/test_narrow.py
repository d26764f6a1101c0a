"""Products of a few rows: any layout, the same bits on any number of threads, and no copy of the long factor."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad.kernels.gemm.narrow import multiply_narrow
from minigrad.kernels.threads import set_threads
from tests.kernels.codegen.twins import rounded

Array = NDArray[Any]


def product(a: Array, b: Array, rounding: bool) -> Array:
    out = np.full((len(a), b.shape[1]), np.nan, np.float32)
    multiply_narrow(a, b, out, rounding)
    return out


@given(
    few=st.integers(0, 5),
    k=st.sampled_from([0, 1, 33, 300]),
    many=st.sampled_from([0, 1, 7, 511, 513, 1_100]),
    layouts=st.tuples(*[st.sampled_from([np.array, np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2]])] * 2),
    swapped=st.booleans(),
    rounding=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_the_product_is_that_of_float64(
    few: int, k: int, many: int, layouts: Any, swapped: bool, rounding: bool, seed: int
) -> None:
    rng, (m, n) = np.random.default_rng(seed), (many, few) if swapped else (few, many)
    a, b = (
        lay(rng.normal(size=shape).astype(np.float32)) for lay, shape in zip(layouts, ((m, k), (k, n)), strict=True)
    )
    got = product(a, b, rounding)
    a, b = ((rounded(x) << 16).view(np.float32).reshape(x.shape) if rounding else x for x in (a, b))
    size = np.abs(a).astype(np.float64) @ np.abs(b)
    assert (np.abs(got - a.astype(np.float64) @ b) <= (k + 2) * 2.0**-24 * size).all()


@pytest.mark.usefixtures("_restore_pool")
@pytest.mark.parametrize("transposed", [False, True])
def test_the_same_bits_on_any_number_of_threads(transposed: bool, shared_loops: list[int]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 700)).astype(np.float32), rng.normal(size=(700, 5_001)).astype(np.float32)
    b = np.asfortranarray(b) if transposed else b
    found = []
    for count in (1, 2, 3):
        set_threads(count)
        found.append(product(a, b, True).tobytes())
    assert len(set(found)) == 1
    assert set(shared_loops) == {2, 3}


@pytest.mark.parametrize("transposed", [False, True])
def test_the_long_factor_is_not_copied(transposed: bool) -> None:
    a, b = np.ones((1, 400), np.float32), np.ones((400, 3_000), np.float32)
    b = np.asfortranarray(b) if transposed else b
    out = np.empty((1, 3_000), np.float32)
    multiply_narrow(a, b, out, True)
    tracemalloc.start()
    multiply_narrow(a, b, out, True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (out == 400).all()
    assert peak < b.nbytes / 20
