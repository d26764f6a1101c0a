"""Fixtures that turn back what a test of kernels chose for the whole process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minigrad.kernels import threads
from minigrad.kernels.gemm import backend as products
from minigrad.system import hardware


@pytest.fixture
def _restore_pool() -> Iterator[None]:
    """Give kernels the number of threads again that they had before the test."""
    before = threads._pool.count if threads._pool is not None else hardware.threads()
    yield
    threads.set_threads(before)


@pytest.fixture
def _restore_products() -> Iterator[None]:
    """Choose the default backend and precision of matrix products again."""
    yield
    products.use()
