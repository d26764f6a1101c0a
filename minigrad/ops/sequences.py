"""Packed sequences: the sum of the rows of each, and the checks of what divides an array into sequences.

Sequence s has the rows ``offsets[s]:offsets[s + 1]``.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.typing import Array


@op(integer_dtype="int64")
def sum_sequences(x: Array, *, offsets: Array) -> tuple[Array, Backward]:
    r"""Add up the rows of each packed sequence: $y_s = \sum_{t \in s} x_t$; the sum of no rows is 0.

    Shapes: x (rows, ...), offsets (S + 1,) -> (S, ...).  Raises ShapeError if the offsets do not rise from 0 to the
    number of rows.

    >>> from minigrad import Tensor, ops
    >>> ops.sum_sequences(Tensor([1.0, 2.0, 3.0]), offsets=np.array([0, 1, 1, 3])).tolist()
    [1.0, 0.0, 5.0]
    """
    offsets = checked_offsets("sum_sequences", x, offsets)
    lengths = np.diff(offsets)
    y = np.empty((len(lengths), *x.shape[1:]), x.dtype)
    for s, (start, stop) in enumerate(itertools.pairwise(offsets)):
        y[s] = x[start:stop].sum(axis=0)
    return y, lambda dy: np.repeat(dy, lengths, axis=0)  # the derivative of a sum is 1 for each of its terms


def checked_offsets(name: str, x: Array, offsets: ArrayLike) -> Array:
    """Return a copy of offsets as int64; raise ShapeError unless x has rows, which they divide into sequences."""
    array = np.asarray(offsets)
    if x.ndim < 1 or not are_offsets(array) or array[-1] != len(x):
        raise ShapeError(f"{name} needs x (rows, ...) and offsets that rise from 0 to rows; got {x.shape}, {array}")
    return array.astype(np.int64)


def checked_integers(name: str, values: ArrayLike) -> Array:
    """Return a copy of integers as int64, which kernels can read; raise ShapeError, naming them, for other numbers.

    A copy, because the backward pass needs them unchanged.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ShapeError(f"{name} must be integers, not {array.dtype}")
    return np.array(array, np.int64, order="C")


def are_offsets(offsets: Array) -> bool:
    """Whether these are offsets of sequences: integers that begin with 0 and do not decrease."""
    array = np.asarray(offsets)
    is_list = array.ndim == 1 and array.dtype.kind in "iu" and len(array) > 0
    return is_list and array[0] == 0 and bool((array[1:] >= array[:-1]).all())
