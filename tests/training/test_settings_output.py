"""The type of the weights follows from the precision."""

from __future__ import annotations

import pytest

from minigrad.training.settings import TrainConfig


@pytest.mark.parametrize(
    ("precision", "dtype", "itemsize"),
    [("float32", "float32", 4), ("bfloat16", "float32", 4), ("float64", "float64", 8)],
)
def test_the_weights_have_a_type_and_a_size(precision: str, dtype: str, itemsize: int) -> None:
    settings = TrainConfig(precision=precision)
    assert (settings.dtype, settings.itemsize) == (dtype, itemsize)
