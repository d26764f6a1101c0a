"""The running mean: what a text has been about so far, as one vector per position."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.sequence import prefix_mean as kernels
from minigrad.typing import Array


@op
def prefix_mean(
    x: Array, *, offsets: Array, carried: Array | None = None, counts: Array | None = None
) -> tuple[Array, Backward]:
    r"""Average each row with all rows before it in its sequence: $s_t = \tfrac1t \sum_{u \le t} x_u$.

    The causal form of the layer summaries of Wiola (arXiv 2607.01394, eq. 20, whose mean over the whole text would show
    every position the future). Sequences lie in the rows as in `attention`. A sequence that goes on from an earlier
    pass brings the sum `carried` of the `counts` rows it had. Sums are kept in float64: in bfloat16 a running count
    would stop at 256.
    Shapes: x (rows, C), offsets (S + 1,), carried (S, C), counts (S,) -> (rows, C).  Raises ShapeError if they do not
    fit.
    """
    starts = np.require(offsets, np.int64, ["C", "W"])
    if x.ndim != 2 or len(starts) < 1 or starts[0] != 0 or starts[-1] != len(x) or (np.diff(starts) < 0).any():
        raise ShapeError(f"prefix_mean needs x (rows, C) and offsets from 0 to rows; got {x.shape} and {offsets}")
    shape = (len(starts) - 1, x.shape[1])
    sums = np.zeros(shape) if carried is None else np.require(carried, np.float64, ["C", "W"])
    before = np.zeros(shape[0], np.int64) if counts is None else np.require(counts, np.int64, ["C", "W"])
    if sums.shape != shape or before.shape != shape[:1]:
        raise ShapeError(f"prefix_mean needs carried {shape} and counts {shape[:1]}; got {sums.shape}, {before.shape}")

    def backward(dy: Array) -> Array:
        # Row u takes part in every later mean t, with the weight 1 / n_t: a running sum from the end.
        return kernels.prefix_mean_backward(dy, starts, before)

    return kernels.prefix_mean_forward(x, starts, sums, before), backward
