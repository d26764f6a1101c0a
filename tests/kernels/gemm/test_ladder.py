"""The rungs of the ladder: each computes the product that the definition gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.kernels.gemm import ladder

sides = st.sampled_from([0, 1, 2, 3, 7, 11, 12, 13, 31, 32, 33, 65, 100])
every_rung = pytest.mark.parametrize("rung", [ladder.naive, ladder.loop_order, ladder.blocked, ladder.packed])


@every_rung
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    m=sides,
    k=st.sampled_from([0, 1, 2, 63, 64, 65, 130]),
    n=st.sampled_from([0, 1, 5, 127, 129, 520]),
    seed=st.integers(0, 2**16),
)
def test_every_rung_computes_the_product(rung: Any, dtype: Any, m: int, k: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(size=shape).astype(np.float32).astype(dtype) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, dtype)
    rung(a, b, c)
    x, y = a.astype(np.float64), b.astype(np.float64)
    error, size = np.abs(c - x @ y), np.abs(x) @ np.abs(y)
    assert (error <= (k + 2) * float(np.finfo(dtype).eps) * size).all()


@pytest.mark.parametrize(("m", "k", "n"), [(1, 3, 5), (4, 4, 1), (5, 9, 7)])
def test_a_small_product_is_added_inside_larger_arrays(m: int, k: int, n: int) -> None:
    a, b, c = np.ones((6, 10)), np.ones((10, 8)), np.full((6, 8), 2.0)
    ladder.add_product(a, b, c, m, k, n)
    assert (c[:m, :n] == 2 + k).all()
    c[:m, :n] = 2
    assert (c == 2).all()
