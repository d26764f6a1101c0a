"""A step over a long sequence is finite, in every family."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.long_sequences import step
from minigrad.kernels.gemm import backend
from models import FAMILIES


@pytest.fixture(autouse=True)
def products_as_before() -> Iterator[None]:
    before = backend.in_use()
    yield
    backend.use(*before)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_is_finite(family: str) -> None:
    found = step(family, "nano", 96)
    assert found["finite"]
    assert found["tokens"] == 96
    assert found["tokens_per_second"] == pytest.approx(96 / found["seconds"])
