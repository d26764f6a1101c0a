"""Keys that no query can see, or that two sequences share, are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import ShapeError, Tensor, ops

ZEROS = [Tensor(np.zeros((4, heads, 3))) for heads in (2, 1, 1)]


def test_keys_shared_by_two_sequences_are_refused() -> None:
    # Each sequence writes the gradients of its own keys; two of them would overwrite each other's.
    with pytest.raises(ShapeError, match="overlap"):
        ops.attention(*ZEROS, offsets=np.array([0, 2, 4]), key_ranges=np.array([[1, 4], [0, 2]]))


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        (((4, 2), (4, 2, 3), (4, 2, 3)), {"offsets": [0, 4]}, r"\(4, 2\)"),
        (((4, 2, 3), (4, 2, 5), (4, 2, 5)), {"offsets": [0, 4]}, r"\(4, 2, 5\)"),
        (((4, 3, 3), (4, 2, 3), (4, 2, 3)), {"offsets": [0, 4]}, "3 query heads cannot share 2"),
        (((4, 2, 3), (4, 2, 3), (4, 2, 3)), {"offsets": [0, 3]}, "rise from 0 to rows"),
        (((4, 2, 3), (4, 2, 3), (4, 2, 3)), {"offsets": [0, 1.9, 4]}, "rise from 0 to rows"),
        (((4, 2, 3), (4, 2, 3), (4, 2, 3)), {"offsets": [0, 3, 1, 4]}, "rise from 0"),
        (((4, 2, 3), (3, 2, 3), (3, 2, 3)), {"offsets": [0, 4]}, "within 3 key rows"),
        (((4, 2, 3), (9, 2, 3), (9, 2, 3)), {"offsets": [0, 4], "key_ranges": [[0, 3]]}, "one key per query"),
        (((4, 2, 3), (9, 2, 3), (9, 2, 3)), {"offsets": [0, 4], "key_ranges": [[6, 10]]}, "within 9"),
        (((4, 2, 3), (9, 2, 3), (9, 2, 3)), {"offsets": [0, 4], "key_ranges": [[-1, 5]]}, "within 9"),
        (((4, 2, 3), (4, 2, 3), (4, 2, 3)), {"offsets": [0, 4], "visible": [1, 2, 3]}, "a number of keys for each row"),
        (
            ((4, 2, 3), (4, 2, 3), (4, 2, 3)),
            {"offsets": [0, 4], "visible": [1, 2, 3, 5]},
            "to the keys of its sequence",
        ),
        (((4, 2, 3), (4, 2, 3), (4, 2, 3)), {"offsets": [0, 4], "visible": [1, 2, 1, 4]}, "must not decrease"),
        (((2, 2, 3), (2, 2, 3), (2, 2, 3)), {"offsets": [0, 2], "key_ranges": [[0.5, 2.0]]}, "ranges .* be integers"),
        (((2, 2, 3), (2, 2, 3), (2, 2, 3)), {"offsets": [0, 2], "visible": [1.9, 2.0]}, "visible must be integers"),
        (((2, 2, 3), (2, 2, 3), (2, 2, 3)), {"offsets": [0, 2], "first_visible": [0, 0.5]}, "first_visible must be"),
        (
            ((4, 2, 3), (4, 2, 3), (4, 2, 3)),
            {"offsets": [0, 4], "first_visible": [0, 0, 0, 5]},
            "up to the last that it",
        ),
        (
            ((4, 2, 3), (4, 2, 3), (4, 2, 3)),
            {"offsets": [0, 4], "first_visible": [0, 1, 0, 1]},
            "first_visible must not",
        ),
    ],
)
def test_shapes_and_ranges_that_do_not_fit_are_refused(shapes: Any, options: dict[str, Any], message: str) -> None:
    arrays = {name: np.array(value) for name, value in options.items()}
    with pytest.raises(ShapeError, match=message):
        ops.attention(*(Tensor(np.zeros(shape)) for shape in shapes), **arrays)


def test_what_a_row_sees_may_decrease_where_the_next_sequence_begins() -> None:
    ops.attention(*ZEROS, offsets=np.array([0, 2, 2, 4]), visible=np.array([1, 2, 0, 1]))
