"""Packed sequences of other lengths: cut or extend each, and add up the rows of each.

Sequence s has the rows ``offsets[s]:offsets[s + 1]``. A padded batch (B, T, ...) is B sequences of equal length, so
padding is a change of the lengths from their own to T, and removing the padding is the change back.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import InputError, ShapeError
from minigrad.typing import Array


@op(integer_dtype="any")
def resize_sequences(x: Array, *, offsets: Array, new_offsets: Array, fill: float = 0) -> tuple[Array, Backward]:
    r"""Give each packed sequence another length: rows are cut off at its end, or rows of `fill` appended there.

    Shapes: x (rows, ...), offsets and new_offsets (S + 1,) -> (new rows, ...).  Raises ShapeError if the offsets do not
    rise from 0 to the number of rows, or if the numbers of sequences differ; InputError if x cannot hold `fill`.

    >>> from minigrad import Tensor, ops
    >>> x = Tensor([1.0, 2.0, 3.0])  # two sequences, of lengths 1 and 2
    >>> ops.resize_sequences(x, offsets=np.array([0, 1, 3]), new_offsets=np.array([0, 2, 3])).tolist()
    [1.0, 0.0, 2.0]
    """
    _check("resize_sequences", x, offsets)
    if np.shape(new_offsets) != np.shape(offsets) or not _rise(new_offsets):
        raise ShapeError(
            f"resize_sequences needs new offsets that rise from 0, one more than the {len(offsets) - 1} sequences; "
            f"got {new_offsets}"
        )
    if not _holds(x.dtype, fill):
        raise InputError(
            f"resize_sequences cannot fill x of dtype {x.dtype} with {fill}; convert it, for example with "
            ".astype('float32')"
        )
    y = _resized(x, offsets, new_offsets, fill)

    def backward(dy: Array) -> Array:
        # A row that is in both has the gradient of its copy; a row that was cut off changes nothing, so its gradient
        # is 0. That is the same operation in the other direction, with 0 as fill.
        return _resized(dy, new_offsets, offsets, 0)

    return y, backward


@op(integer_dtype="int64")
def sum_sequences(x: Array, *, offsets: Array) -> tuple[Array, Backward]:
    r"""Add up the rows of each packed sequence: $y_s = \sum_{t \in s} x_t$; the sum of no rows is 0.

    Shapes: x (rows, ...), offsets (S + 1,) -> (S, ...).  Raises ShapeError if the offsets do not rise from 0 to the
    number of rows.

    >>> from minigrad import Tensor, ops
    >>> ops.sum_sequences(Tensor([1.0, 2.0, 3.0]), offsets=np.array([0, 1, 1, 3])).tolist()
    [1.0, 0.0, 5.0]
    """
    _check("sum_sequences", x, offsets)
    lengths = np.diff(offsets)
    y = np.empty((len(lengths), *x.shape[1:]), x.dtype)
    for s, (start, stop) in enumerate(itertools.pairwise(offsets)):
        y[s] = x[start:stop].sum(axis=0)

    def backward(dy: Array) -> Array:
        # The derivative of a sum by each of its terms is 1.
        return np.repeat(dy, lengths, axis=0)

    return y, backward


def _resized(x: Array, offsets: Array, new_offsets: Array, fill: float) -> Array:
    """Return the rows of x with each sequence cut or extended to its new length."""
    y = np.empty((int(new_offsets[-1]), *x.shape[1:]), x.dtype)
    places = zip(itertools.pairwise(offsets), itertools.pairwise(new_offsets), strict=True)
    for (start, stop), (new_start, new_stop) in places:
        kept = min(stop - start, new_stop - new_start)
        y[new_start : new_start + kept] = x[start : start + kept]
        y[new_start + kept : new_stop] = fill
    return y


def _holds(dtype: np.dtype[Any], number: float) -> bool:
    """Whether a number is one of the values of a dtype; every number is close to one of a float dtype."""
    with np.errstate(invalid="ignore"):
        return dtype.kind == "f" or bool(np.asarray(number).astype(dtype) == number)


def _check(name: str, x: Array, offsets: Array) -> None:
    """Raise ShapeError if x has no rows, or `offsets` do not divide them into sequences."""
    if x.ndim < 1 or not _rise(offsets) or offsets[-1] != len(x):
        raise ShapeError(f"{name} needs x (rows, ...) and offsets that rise from 0 to rows; got {x.shape}, {offsets}")


def _rise(offsets: Array) -> bool:
    """Whether these are offsets of sequences: integers that begin with 0 and do not decrease."""
    array = np.asarray(offsets)
    is_list = array.ndim == 1 and array.dtype.kind in "iu" and len(array) > 0
    return is_list and array[0] == 0 and bool((array[1:] >= array[:-1]).all())
