"""Zero-extension and stacks of zero-extensions: what is refused."""

from __future__ import annotations

import pytest

from minigrad import InputError, ShapeError, Tensor, ops


@pytest.mark.parametrize("shape", [(1, 2), (2,), (2, 2, 1)])
def test_an_axis_only_becomes_longer(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"cannot extend shape \(2, 2\) to \("):
        ops.zero_extend(Tensor([[1, 2], [3, 4]]), shape=shape)


def test_a_stack_is_of_tensors_with_equally_many_axes() -> None:
    with pytest.raises(ShapeError, match=r"at least one; got none"):
        ops.zero_extended_stack()
    with pytest.raises(ShapeError, match=r"equally many axes, at least one; got \(1,\), \(1, 1\)"):
        ops.zero_extended_stack(Tensor([1]), Tensor([[1]]))
    with pytest.raises(InputError, match="float32 and float64"):
        ops.zero_extended_stack(Tensor([1.0]), Tensor([1.0], dtype="float64"))
