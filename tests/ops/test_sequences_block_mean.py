"""Block means: what is kept for the backward pass, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor, ops
from minigrad.autograd.gradients import saved_arrays


def test_the_rows_themselves_are_not_kept() -> None:
    x = Tensor(np.ones((6, 3)), requires_grad=True)
    means = ops.block_mean(x * 2, offsets=np.array([0, 6]), block=2)
    assert means.node is not None
    assert means.node.backward is not None
    assert all(array.dtype == np.int64 for array in saved_arrays(means.node.backward))


@pytest.mark.parametrize(
    ("offsets", "block", "error", "message"),
    [
        ([0, 4], 0, InputError, "block of block_mean takes a whole number of at least 1, not 0"),
        ([0, 5], 2, ShapeError, r"offsets that rise from 0 to rows; got \(4, 3\), \[0 5\]"),
        ([0, 3, 2, 4], 2, ShapeError, "offsets that rise"),
        ([], 2, ShapeError, "offsets that rise"),
    ],
)
def test_blocks_and_offsets_that_do_not_fit_are_refused(
    offsets: list[int], block: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ops.block_mean(Tensor(np.zeros((4, 3))), offsets=np.array(offsets), block=block)
