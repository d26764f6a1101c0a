"""The key shift: which half moves, and what is refused."""

import numpy as np
import pytest

from minigrad import Tensor, ops
from minigrad.errors import ShapeError


def test_the_slow_half_of_a_key_is_that_of_the_token_before() -> None:
    k = np.arange(24.0).reshape(3, 1, 8)
    y = ops.key_shift(Tensor(k), offsets=np.array([0, 1, 3])).data
    assert y[2, 0].tolist() == [16, 17, 10, 11, 20, 21, 14, 15]  # pairs 0 and 1 stay, pairs 2 and 3 are of row 1
    for first in (0, 1):
        assert y[first, 0, [0, 1, 4, 5]].tolist() == k[first, 0, [0, 1, 4, 5]].tolist()
        assert not y[first, 0, [2, 3, 6, 7]].any()


@pytest.mark.parametrize(
    ("shape", "offsets"),
    [((2, 1, 3), [0, 2]), ((2, 4), [0, 2]), ((2, 1, 4), [0, 1]), ((2, 1, 4), [0, 3, 2]), ((2, 1, 4), [])],
)
def test_what_does_not_fit_is_refused(shape: tuple[int, ...], offsets: list[int]) -> None:
    with pytest.raises(ShapeError, match="key_shift needs"):
        ops.key_shift(Tensor(np.zeros(shape)), offsets=np.array(offsets, np.int64))
