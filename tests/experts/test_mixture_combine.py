"""Adding up what experts computed: rows that nobody or several tokens would get, and shapes that differ."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import ShapeError, Tensor
from minigrad.experts.mixture import combine_experts


def test_parts_that_are_named_twice_or_not_at_all_are_refused() -> None:
    parts, gates = Tensor(np.ones((4, 3))), Tensor(np.ones((2, 2)))
    for places in ([[0, 1], [2, 2]], [[0, 1], [2, -1]], [[0, 1], [2, 4]]):
        with pytest.raises(ShapeError, match="name each row of parts once"):
            combine_experts(parts, gates, places=np.array(places))


def test_shapes_that_differ_are_named() -> None:
    with pytest.raises(ShapeError, match=r"got \(5, 3\), \(2, 2\) and \(2, 2\)"):
        combine_experts(Tensor(np.ones((5, 3))), Tensor(np.ones((2, 2))), places=np.array([[0, 1], [2, 3]]))
