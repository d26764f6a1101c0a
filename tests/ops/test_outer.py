"""The outer product of tensors with several axes, and of numbers."""

from __future__ import annotations

import numpy as np

from minigrad import Tensor, ops


def test_the_axes_of_both_are_kept() -> None:
    y = ops.outer(Tensor(np.ones((2, 3))), Tensor(np.ones(4)))
    assert y.shape == (2, 3, 4)
    assert ops.outer(Tensor(2.0), Tensor(3.0)).item() == 6
