"""A tensor in an f-string."""

from __future__ import annotations

import pytest

from minigrad import ShapeError, Tensor


def test_the_only_element_is_formatted_as_a_number() -> None:
    assert f"{Tensor(0.12345):.3f} {Tensor([0.5]):.0%}" == "0.123 50%"
    assert f"{Tensor([1.0, 2.0])}" == str(Tensor([1.0, 2.0]))
    with pytest.raises(
        ShapeError, match=r"the format '\.3f' needs a tensor with one element; this one has shape \(2,\)"
    ):
        f"{Tensor([1.0, 2.0]):.3f}"
