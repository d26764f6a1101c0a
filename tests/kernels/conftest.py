"""Fixtures that turn back what a test of kernels chose for the whole process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minigrad.kernels.gemm import backend as products


@pytest.fixture
def _restore_products() -> Iterator[None]:
    """Choose the default backend and precision of matrix products again."""
    yield
    products.use()
