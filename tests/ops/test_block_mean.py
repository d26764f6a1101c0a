"""Block means: what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor, ops


@pytest.mark.parametrize(
    ("offsets", "block", "error", "message"),
    [
        ([0, 4], 0, InputError, "a block has at least one row, not 0"),
        ([0, 5], 2, ShapeError, r"offsets that rise from 0 to the number of rows; got \[0 5\] for \(4, 3\)"),
        ([0, 3, 2, 4], 2, ShapeError, "offsets that rise"),
        ([], 2, ShapeError, "offsets that rise"),
    ],
)
def test_blocks_and_offsets_that_do_not_fit_are_refused(
    offsets: list[int], block: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ops.block_mean(Tensor(np.zeros((4, 3))), offsets=np.array(offsets), block=block)
