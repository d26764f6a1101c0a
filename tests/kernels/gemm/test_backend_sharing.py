"""Threads share the products that BLAS computes: the parts make up the whole, and small products stay in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad.kernels import threads
from minigrad.kernels.gemm import backend as products
from minigrad.system import blas

LARGE = [((2000, 300), (300, 200)), ((200, 300), (300, 2000)), ((1, 9000), (9000, 9000))]
BATCHES = [((6, 1, 90, 400), (5, 400, 300)), ((1, 64, 50, 200), (200, 300)), ((0, 3, 4), (4, 5)), ((3, 4), (2, 4, 0))]


@pytest.fixture(autouse=True)
def _three_threads(_restore_pool: None, _restore_products: None) -> None:
    products.use("blas")
    threads.set_threads(3)


@pytest.fixture
def computed_in(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the threads in which BLAS is asked for a product."""
    where: list[int] = []
    blas_product = products.blas_product

    def noted(a: Any, b: Any, out: Any) -> None:
        where.append(threading.get_ident())
        blas_product(a, b, out)

    monkeypatch.setattr(products, "blas_product", noted)
    return where


def random(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def assert_equal(y: Any, a: Any, b: Any) -> None:
    np.testing.assert_allclose(y, a.astype(np.float64) @ b.astype(np.float64), rtol=0, atol=2e-6 * a.shape[-1] ** 0.75)


@pytest.mark.parametrize(
    ("multiply", "shapes"),
    [*((products.product, shapes) for shapes in LARGE), *((products.blas_products, shapes) for shapes in BATCHES)],
)
def test_the_parts_make_up_the_product(
    computed_in: list[int], multiply: Callable[..., Any], shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    a, b = random(*shapes)
    y = multiply(a, b)
    assert y.dtype == np.float32
    assert y.shape == (a @ b).shape
    assert_equal(y, a, b)
    assert (len(computed_in) > 1) == (y.size > 0)


def test_small_products_stay_in_the_thread_that_asks(computed_in: list[int]) -> None:
    a, b = random((64, 256), (256, 64))
    products.product(a, b)
    products.blas_products(np.stack([a] * 4), b)
    assert computed_in == [threading.get_ident()] * 2


def test_a_library_with_threads_of_its_own_computes_the_whole(
    computed_in: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blas, "can_use_one_thread", lambda: False)
    a, b = random(*LARGE[0])
    assert_equal(products.product(a, b), a, b)
    assert computed_in == [threading.get_ident()]


@pytest.mark.parametrize("shapes", LARGE)
def test_the_number_of_threads_changes_no_bit(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = random(*shapes)
    three = products.product(a, b)
    threads.set_threads(1)
    assert products.product(a, b).tobytes() == three.tobytes()
