"""Running means of packed sequences: what a layer of Wiola tells the layers above of the rows so far."""

from __future__ import annotations

import itertools

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.ops.sequences import checked_integers, checked_offsets
from minigrad.typing import Array
from models.wiola.kernels import prefix_mean as kernels


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
    starts = checked_offsets("prefix_mean", x, offsets)
    shape = (len(starts) - 1, *x.shape[1:])
    sums = np.zeros(shape) if carried is None else np.require(carried, np.float64, ["C", "W"])
    before = np.zeros(shape[0], np.int64) if counts is None else checked_integers("counts of prefix_mean", counts)
    if x.ndim != 2 or sums.shape != shape or before.shape != shape[:1]:
        raise ShapeError(
            f"prefix_mean needs x (rows, C), carried {shape} and counts {shape[:1]}; got {x.shape}, {sums.shape} and "
            f"{before.shape}"
        )
    if (before < 0).any():
        raise ShapeError(f"counts of prefix_mean are numbers of earlier rows, at least 0; got {before}")
    # Row u is part of the mean of every later row t, with the weight 1 / n_t, where n_t is the number of rows in that
    # mean: dx_u = sum_{t >= u} dy_t / n_t, a running sum from the end.
    y = kernels.prefix_mean_forward(x, starts, sums, before)
    return y, lambda dy: kernels.prefix_mean_backward(dy, starts, before)
