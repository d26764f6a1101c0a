"""Packed sequences: the offsets that divide an array into them."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import ShapeError, Tensor, ops
from minigrad.autograd.operators import OPS
from models.vsla.operations.far_keys import block_mean


@pytest.mark.parametrize("offsets", [[0, 2, 1, 3], [1, 3], [0, 2], [], [0.0, 3.0], [[0, 3]], [0, 4]])
def test_offsets_rise_from_0_to_the_number_of_rows(offsets: list[int]) -> None:
    x = Tensor([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match=r"sum_sequences needs x \(rows, .* offsets that rise .*; got \(3,\)"):
        ops.sum_sequences(x, offsets=np.array(offsets))


@pytest.mark.parametrize("name", ["sum_sequences", block_mean.__name__, "key_shift"])
def test_offsets_of_any_integers_are_those_of_the_call(name: str) -> None:
    """The caller may change its own before the backward pass."""
    gradients = []
    for dtype, changes in ((np.int64, False), (np.int64, True), (np.uint64, True), (np.int32, True)):
        x = Tensor(np.arange(24.0).reshape((6, 4) if name != "key_shift" else (6, 1, 4)), requires_grad=True)
        offsets = np.array([0, 2, 6], dtype)
        y = OPS[name](x, offsets=offsets, **({"block": 2} if name == "block_mean" else {}))
        if changes:
            offsets[1] = 5
        (y * y).sum().backward()
        assert x.grad is not None
        gradients.append(x.grad.tolist())
    assert gradients[1:] == gradients[:1] * 3
