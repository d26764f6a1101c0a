"""Adding up what several experts computed for a token, each times its gate."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise import combining as kernels
from minigrad.typing import Array


def combine_experts_formula(parts: Array, gates: Array, *, places: Array) -> Array:
    """Compute `combine_experts` in plain NumPy."""
    return (gates[:, :, None] * parts[places]).sum(axis=1)


@op
def combine_experts(parts: Array, gates: Array, *, places: Array) -> tuple[Array, Backward]:
    r"""Add up the rows that belong to each token: $y_t = \sum_j g_{tj}\, p_{places_{tj}}$.

    The sum over experts of Shazeer et al. 2017, "Outrageously large neural networks", arXiv 1701.06538, eq. 1. The
    outputs of the experts lie one expert after the other; `places` says where those of token t are.
    Shapes: parts (rows * k, C), gates (rows, k), places (rows, k), in which each row of `parts` is named once ->
    (rows, C).  Raises ShapeError if they do not fit.

    >>> from minigrad import Tensor
    >>> parts, gates = Tensor([[1.0], [2.0], [3.0], [4.0]]), Tensor([[0.5, 0.5], [0.9, 0.1]])
    >>> combine_experts(parts, gates, places=np.array([[0, 2], [1, 3]])).tolist()  # 0.5 + 1.5, 1.8 + 0.4
    [[2.0], [2.200000047683716]]
    """
    if parts.ndim != 2 or gates.ndim != 2 or places.shape != gates.shape or len(parts) != gates.size:
        raise ShapeError(
            f"combine_experts needs parts (rows * k, C), gates and places (rows, k); got {parts.shape}, {gates.shape} "
            f"and {places.shape}"
        )
    named = np.require(places, np.int64, ["C", "W"])
    if named.size and (named.min() < 0 or (np.bincount(named.reshape(-1), minlength=len(parts)) != 1).any()):
        raise ShapeError("combine_experts needs places that name each row of parts once")
    given = kernels.Combination(rows_of(parts).reshape(parts.shape), rows_of(gates).reshape(gates.shape), named)

    def backward(dy: Array) -> tuple[Array, Array]:
        # y_t is linear in both: dp = g_tj dy_t in the place of the part, and dg_tj = dy_t . p.
        return kernels.combine_backward(dy, given)

    return kernels.combine_forward(given), backward
