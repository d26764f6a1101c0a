"""Packed sequences: cut or extend each, add up its rows, and average blocks of them.

Sequence s has the rows ``offsets[s]:offsets[s + 1]``. A padded batch (B, T, ...) is B sequences of equal length, so
padding is a change of the lengths from their own to T, and removing the padding is the change back.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import InputError, ShapeError
from minigrad.options import checked_number
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
    offsets = checked_offsets("resize_sequences", x, offsets)
    if np.shape(new_offsets) != np.shape(offsets) or not _rise(new_offsets):
        raise ShapeError(
            f"resize_sequences needs new offsets that rise from 0, one more than the {len(offsets) - 1} sequences; "
            f"got {new_offsets}"
        )
    new_offsets = np.array(new_offsets, np.int64)
    with np.errstate(invalid="ignore"):  # every number is close to a value of a float dtype
        holds_fill = x.dtype.kind == "f" or bool(np.asarray(fill).astype(x.dtype) == fill)
    if not holds_fill:
        raise InputError(
            f"resize_sequences cannot fill x of dtype {x.dtype} with {fill}; convert it, for example with "
            ".astype('float32')"
        )
    # A row that is in both has the gradient of its copy; a row that was cut off changes nothing, so its gradient is 0.
    # That is the same operation in the other direction, with 0 as fill.
    return _resized(x, offsets, new_offsets, fill), lambda dy: _resized(dy, new_offsets, offsets, 0)


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


def block_mean_formula(x: Array, *, offsets: Array, block: int) -> Array:
    """Compute `block_mean` in plain NumPy, one block at a time."""
    means = [
        x[start : start + block].mean(axis=0)
        for first, last in itertools.pairwise(offsets)
        for start in range(first, last - block + 1, block)
    ]
    return np.array(means, x.dtype).reshape(len(means), *x.shape[1:])


@op
def block_mean(x: Array, *, offsets: Array, block: int) -> tuple[Array, Backward]:
    r"""Average blocks of rows: $y_b = \frac1B \sum_{i=0}^{B-1} x_{bB+i}$, for each sequence by itself.

    A sequence of T rows has T // block means; rows after the last complete block are in none. So a mean is known as
    soon as the last row of its block is, and no earlier row depends on a later one.
    Shapes: x (rows, ...), offsets (S + 1,) -> (blocks, ...).
    Raises InputError unless block is at least 1, ShapeError if the offsets do not rise from 0 to the number of rows.

    >>> from minigrad import Tensor, ops
    >>> ops.block_mean(Tensor([1.0, 3.0, 5.0, 7.0, 9.0]), offsets=np.array([0, 5]), block=2).tolist()
    [2.0, 6.0]
    """
    checked_number("block of block_mean", block, int, at_least=1)
    starts = checked_offsets("block_mean", x, offsets)
    counts = np.diff(starts) // block
    blocks = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # of each mean, in its sequence
    shape, dtype = x.shape, x.dtype  # the backward pass needs nothing else of x
    rows = (np.repeat(starts[:-1], counts) + blocks * block)[:, None] + np.arange(block)  # (blocks, block)

    def backward(dy: Array) -> Array:
        # Each row of a block has a part of 1 / B in its mean.
        dx = np.zeros(shape, dtype)
        dx[rows] = (dy * dy.dtype.type(1 / block))[:, None]
        return dx

    return x[rows].sum(axis=1) * x.dtype.type(1 / block), backward


def _resized(x: Array, offsets: Array, new_offsets: Array, fill: float) -> Array:
    """Return the rows of x with each sequence cut or extended to its new length."""
    y = np.empty((int(new_offsets[-1]), *x.shape[1:]), x.dtype)
    places = zip(itertools.pairwise(offsets), itertools.pairwise(new_offsets), strict=True)
    for (start, stop), (new_start, new_stop) in places:
        kept = min(stop - start, new_stop - new_start)
        y[new_start : new_start + kept] = x[start : start + kept]
        y[new_start + kept : new_stop] = fill
    return y


def checked_offsets(name: str, x: Array, offsets: ArrayLike) -> Array:
    """Return a copy of offsets as int64; raise ShapeError unless x has rows, which they divide into sequences."""
    array = np.asarray(offsets)
    if x.ndim < 1 or not _rise(array) or array[-1] != len(x):
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


def _rise(offsets: Array) -> bool:
    """Whether these are offsets of sequences: integers that begin with 0 and do not decrease."""
    array = np.asarray(offsets)
    is_list = array.ndim == 1 and array.dtype.kind in "iu" and len(array) > 0
    return is_list and array[0] == 0 and bool((array[1:] >= array[:-1]).all())
