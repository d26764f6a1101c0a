"""Prefix means: for each position, the mean of all rows of its sequence up to there."""

from __future__ import annotations

import itertools

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.sequence import prefix_mean as kernels
from minigrad.typing import Array


def prefix_mean_formula(
    x: Array, *, offsets: Array, carried: Array | None = None, counts: Array | None = None
) -> Array:
    """Compute `prefix_mean` in plain NumPy."""
    y = np.empty_like(x)
    for s, (start, stop) in enumerate(itertools.pairwise(offsets)):
        sums = np.cumsum(x[start:stop], axis=0) + (0 if carried is None else carried[s])
        lengths = np.arange(1, stop - start + 1) + (0 if counts is None else counts[s])
        y[start:stop] = sums / lengths[:, None]
    return y


@op
def prefix_mean(
    x: Array, *, offsets: Array, carried: Array | None = None, counts: Array | None = None
) -> tuple[Array, Backward]:
    r"""Average each row with all rows before it in its sequence: $s_t = \tfrac1t \sum_{u \le t} x_u$.

    This is the causal form of the layer summaries of Wiola (arXiv 2607.01394, eq. 20, whose mean over the whole
    sequence would let every position see later ones). Sequence s has rows ``offsets[s]:offsets[s + 1]``. If earlier
    rows of it were processed before, ``carried[s]`` is their sum and ``counts[s]`` their number; both are 0 by default.
    Sums are computed in float64: in bfloat16 a running count would stop at 256.
    Shapes: x (rows, C), offsets (S + 1,), carried (S, C), counts (S,) -> (rows, C).  Raises ShapeError if they do not
    fit.
    """
    starts, sums, before = _checked(x, offsets, carried, counts)

    def backward(dy: Array) -> Array:
        # Row u is part of the mean of every later row t, with the weight 1 / n_t, where n_t is the number of rows in
        # that mean: dx_u = sum_{t >= u} dy_t / n_t, a running sum from the end.
        return kernels.prefix_mean_backward(dy, starts, before)

    return kernels.prefix_mean_forward(x, starts, sums, before), backward


def _checked(x: Array, offsets: Array, carried: Array | None, counts: Array | None) -> tuple[Array, Array, Array]:
    """Return offsets, carried and counts as the kernel takes them: int64, float64 and int64."""
    starts = np.require(offsets, np.int64, ["C", "W"])
    if x.ndim != 2 or len(starts) < 1 or starts[0] != 0 or starts[-1] != len(x) or (np.diff(starts) < 0).any():
        raise ShapeError(f"prefix_mean needs x (rows, C) and offsets from 0 to rows; got {x.shape} and {offsets}")
    shape = (len(starts) - 1, x.shape[1])
    sums = np.zeros(shape) if carried is None else np.require(carried, np.float64, ["C", "W"])
    before = np.zeros(shape[0], np.int64) if counts is None else np.require(counts, np.int64, ["C", "W"])
    if sums.shape != shape or before.shape != shape[:1]:
        raise ShapeError(f"prefix_mean needs carried {shape} and counts {shape[:1]}; got {sums.shape}, {before.shape}")
    return starts, sums, before
