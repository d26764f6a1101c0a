"""Block means: of each sequence, the mean of every complete block of neighbouring rows."""

from __future__ import annotations

import itertools

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.options import checked_number
from minigrad.typing import Array


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
    starts = np.asarray(offsets)
    lengths = np.diff(starts)
    if x.ndim < 1 or not len(starts) or starts[0] != 0 or starts[-1] != len(x) or lengths.min(initial=0) < 0:
        raise ShapeError(
            f"block_mean needs offsets that rise from 0 to the number of rows; got {offsets} for {x.shape}"
        )
    counts = lengths // block
    blocks = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # of each mean, in its sequence
    shape, dtype = x.shape, x.dtype  # the backward pass needs nothing else of x
    rows = (np.repeat(starts[:-1], counts) + blocks * block)[:, None] + np.arange(block)  # (blocks, block)

    def backward(dy: Array) -> Array:
        # Each row of a block has a part of 1 / B in its mean.
        dx = np.zeros(shape, dtype)
        dx[rows] = (dy * dy.dtype.type(1 / block))[:, None]
        return dx

    return x[rows].sum(axis=1) * x.dtype.type(1 / block), backward
