"""A product that is added is the product that is set, bit for bit, in every backend and on any number of threads."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad.kernels import threads
from minigrad.kernels.gemm import backend as products
from minigrad.kernels.threads import set_threads
from tests.kernels.gemm.test_backend import every_arithmetic, factors, seeds, sides

Array = NDArray[Any]
pytestmark = pytest.mark.usefixtures("_restore_products")

# Both sides of what chooses another path: a few rows, tiles, edges of blocks, shared work, more than one part.
THRESHOLDS = [(4, 70, 300), (5, 70, 300), (300, 70, 4), (300, 70, 5), (63, 40, 64), (64, 40, 64), (13, 513, 33)]
THRESHOLDS += [(65, 1_030, 65), (300, 480, 220), (300, 520, 220), (3, 0, 70)]
PARTS = [(2_040, 8, 2_048), (2_050, 8, 2_050)]
LAYOUTS = {"as they are": (False, False), "weight": (False, True), "gradient": (True, False), "both": (True, True)}


@every_arithmetic
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", THRESHOLDS)
def test_adding_to_zeros_is_setting_bit_for_bit(choice: Any, layout: str, shape: tuple[int, int, int]) -> None:
    products.use(*choice)
    check_set_and_added(*laid_out(layout, *factors(*shape)))


@every_arithmetic
@pytest.mark.parametrize("shape", PARTS)
def test_adding_to_zeros_is_setting_where_one_part_becomes_two(choice: Any, shape: tuple[int, int, int]) -> None:
    products.use(*choice)
    check_set_and_added(*factors(*shape))


@pytest.mark.parametrize(
    ("layout", "shape"), [*itertools.product(LAYOUTS, THRESHOLDS), *(("as they are", shape) for shape in PARTS)]
)
def test_float64_is_added_as_it_is_set(layout: str, shape: tuple[int, int, int]) -> None:
    check_set_and_added(*laid_out(layout, *factors(*shape, dtype=np.float64)))


@every_arithmetic
@given(m=sides, k=sides, n=sides, layout=st.sampled_from(sorted(LAYOUTS)), part=st.integers(1, 3_000), seed=seeds)
def test_adding_to_zeros_is_setting_however_many_parts_there_are(
    choice: Any, m: int, k: int, n: int, layout: str, part: int, seed: int
) -> None:
    products.use(*choice)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "_PART", part)
        check_set_and_added(*laid_out(layout, *factors(m, k, n, seed)))


def laid_out(layout: str, a: Array, b: Array) -> list[Array]:
    """Return both factors, each as it is or stored transposed."""
    return [np.asfortranarray(x) if transposed else x for x, transposed in zip((a, b), LAYOUTS[layout], strict=True)]


def check_set_and_added(a: Array, b: Array) -> None:
    """Compare with `product`: a product set, and added to zeros and to another array, in every layout of the result."""
    m, n = len(a), b.shape[1]
    wanted = products.product(a, b)
    for lay in (np.array, np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2]):
        out, added, other = (lay(np.full((m, n), x, a.dtype)) for x in (np.nan, 0, 3))
        products.product_into(a, b, out, False)
        products.product_into(a, b, added, True)
        products.product_into(a, b, other, True)
        assert out.tobytes() == wanted.tobytes()
        np.testing.assert_array_equal(added, wanted)  # the signs of zeros may differ
        np.testing.assert_array_equal(other, wanted + a.dtype.type(3))


@every_arithmetic
@pytest.mark.parametrize("shape", THRESHOLDS + PARTS)
@pytest.mark.usefixtures("_restore_pool")
def test_the_pool_of_threads_changes_no_bit(choice: Any, shape: tuple[int, int, int]) -> None:
    products.use(*choice)
    a, b = factors(*shape)
    found = []
    for count in (1, 2, 3):
        set_threads(count)
        found.append(products.product(a, b).tobytes())
        inside: list[bytes] = []
        threads.run_tasks(lambda _, inside=inside: inside.append(products.product(a, b).tobytes()), count)
        found += inside
    assert len(set(found)) == 1


def test_no_more_memory_than_one_part_is_needed_to_add() -> None:
    products.use()
    a, b, out = np.ones((9_000, 2), np.float32), np.ones((2, 1_000), np.float32), np.zeros((9_000, 1_000), np.float32)
    tracemalloc.start()
    products.product_into(a, b, out, True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (out == 2).all()
    assert peak < 1.1 * 4 * products._PART < 0.6 * out.nbytes
