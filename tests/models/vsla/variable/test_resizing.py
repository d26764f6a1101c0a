"""Packed sequences of other lengths: the way there and back, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor
from models.vsla.variable.resizing import resize_sequences

OFFSETS = np.array([0, 1, 3])


def test_padding_and_cutting_back_changes_nothing_and_a_fill_has_no_gradient() -> None:
    x = Tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    padded = resize_sequences(x, offsets=OFFSETS, new_offsets=np.array([0, 3, 6]), fill=np.nan)
    np.testing.assert_array_equal(padded.data, [1, np.nan, np.nan, 2, 3, np.nan])
    back = resize_sequences(padded, offsets=np.array([0, 3, 6]), new_offsets=OFFSETS)
    assert back.tolist() == [1, 2, 3]
    back.backward(np.array([4.0, 5.0, 6.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [4, 5, 6]


def test_what_was_cut_off_has_no_gradient() -> None:
    x = Tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    resize_sequences(x, offsets=OFFSETS, new_offsets=np.array([0, 1, 2])).backward(np.ones(2))
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1, 0]


@pytest.mark.parametrize("offsets", [[0, 2, 1, 3], [1, 3], [0, 2], []])
def test_offsets_rise_from_0_to_the_number_of_rows(offsets: list[int]) -> None:
    with pytest.raises(ShapeError, match="offsets that rise from 0"):
        resize_sequences(Tensor([1.0, 2.0, 3.0]), offsets=np.array(offsets), new_offsets=np.array([0, 3]))


@pytest.mark.parametrize("offsets", [[0, 1], [0, 2, 1], [1, 2, 3]])
def test_new_offsets_are_of_as_many_sequences(offsets: list[int]) -> None:
    with pytest.raises(ShapeError, match=r"new offsets that rise from 0, one more than the 2 sequences; got \["):
        resize_sequences(Tensor([1.0, 2.0, 3.0]), offsets=OFFSETS, new_offsets=np.array(offsets))


def test_a_fill_is_one_of_the_values_of_the_dtype() -> None:
    tokens = Tensor(np.array([1, 2, 3]))
    assert resize_sequences(tokens, offsets=OFFSETS, new_offsets=OFFSETS * 2, fill=-100).tolist()[1] == -100
    for fill in (0.5, np.nan, np.inf, 2.0**80):
        with pytest.raises(InputError, match=r"cannot fill x of dtype int64 with"):
            resize_sequences(tokens, offsets=OFFSETS, new_offsets=OFFSETS, fill=fill)
