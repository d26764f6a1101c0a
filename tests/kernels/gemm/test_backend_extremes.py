"""Products of infinite, huge, tiny and undefined numbers are those of float32, in every backend."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from minigrad.kernels.gemm import backend as products
from tests.kernels.gemm.test_backend import every_arithmetic, exact, factors

Array = NDArray[Any]
pytestmark = pytest.mark.usefixtures("_restore_products")

EXTREME = {
    "infinite": lambda a, b: (_with(a, np.inf), _with(b, -np.inf)),
    "NaN": lambda a, b: (_with(a, np.nan), b),
    "infinity times zero": lambda a, b: (_with(a, -np.inf), np.where(b > 0, b, 0)),
    "subnormal": lambda a, b: (a * np.float32(1e-40), b),
    "products of 1e-35": lambda a, b: (a * np.float32(1e-18), b * np.float32(1e-17)),
    "products of 1e-38": lambda a, b: (a * np.float32(1e-20), b * np.float32(1e-18)),
    "elements of 1e-35": lambda a, b: (a, b * np.float32(1e-35)),
    "elements of 1e-38": lambda a, b: (a, b * np.float32(1e-38)),
    "products of 1e-43": lambda a, b: (a * np.float32(1e-23), b * np.float32(1e-20)),
    "some tiny": lambda a, b: (np.where(a > 0, a * np.float32(1e-33), 0), np.where(b > 0, b, b * np.float32(1e-36))),
    "huge": lambda a, b: (np.abs(a) * np.float32(1e37), b * np.float32(1e-3)),
    "too large": lambda a, b: (np.abs(a) * np.float32(1e25), -np.abs(b) * np.float32(1e25)),
    "the largest": lambda a, b: (np.full_like(a, np.finfo(np.float32).max), b * np.float32(1e-3)),
}


def _with(x: Array, value: float) -> Array:
    y = x.copy()
    y[len(x) // 2, x.shape[1] // 3] = value
    return y


@every_arithmetic
@pytest.mark.parametrize("kind", EXTREME)
@pytest.mark.parametrize("shape", [(1, 40, 70), (3, 7, 5), (33, 70, 13), (64, 64, 64), (70, 200, 100), (140, 33, 129)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of our own loops, where they run as plain Python
def test_extreme_values_give_what_float64_gives(choice: Any, kind: str, shape: tuple[int, int, int]) -> None:
    products.use(*choice)
    a, b = EXTREME[kind](*factors(*shape))
    found = (products.product(a, b), products.product(b.T, a.T).T)
    with np.errstate(all="ignore"):
        wanted, size = exact(a, b, choice[1])
        # float32 rounds each step of a sum, and to a multiple of 2^-149 at the least; bfloat16 instructions treat
        # everything below 2^-126 as zero.
        least = 2.0**-125 * (1 + np.nan_to_num(np.abs(a)).max() + np.nan_to_num(np.abs(b)).max())
        least = least if choice[1] == "bfloat16" else 2.0**-149
        allowed = (shape[1] + 8) * (2.0**-24 * size + least)
        known = ~(np.isfinite(wanted) & (size > 3e38))  # such a sum may overflow on its way, in some order
        as_float32 = np.where(np.abs(wanted) > 3.4028235e38, np.sign(wanted) * np.inf, wanted)
        for y in found:
            different = ~((y == as_float32) | (np.isnan(y) & np.isnan(wanted)) | (np.abs(y - wanted) <= allowed))
            assert not (different & known).any()


@pytest.mark.parametrize("choice", [("auto", "float32"), ("blas", "float32"), ("blas", "bfloat16")])
@pytest.mark.parametrize("kind", ["infinite", "NaN", "infinity times zero", "too large"])
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="plain Python warns")
def test_a_product_that_is_not_finite_gives_no_warning(choice: tuple[str, str], kind: str) -> None:
    products.use(*choice)
    a, b = EXTREME[kind](*factors(33, 70, 13))
    assert not np.isfinite(products.product(a, b)).all()
