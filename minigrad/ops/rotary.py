"""Rotary positions: tell near from far by turning queries and keys."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.rowwise import rotary as kernels
from minigrad.typing import Array


@op
def rotary(
    x: Array, *, cosine: Array, sine: Array, positions: Array, interleaved: bool = False
) -> tuple[Array, Backward]:
    r"""Turn each pair of numbers by an angle that grows with the position (Su et al. 2021, arXiv 2104.09864, eq. 34).

    Pair j of a head is $(x_j, x_{j+D/2})$, the half-split convention of Llama, or, `interleaved`,
    $(x_{2j}, x_{2j+1})$ as in the paper. At position p it turns by $p\,\theta^{-2j/D}$. A query turned by p and a key
    turned by q meet at an angle that depends on p - q only.
    Shapes: x (rows, H, D), cosine and sine (max positions, D/2), positions (rows,) whole numbers -> (rows, H, D).
    Raises ShapeError if these do not fit or a position lies outside the tables.
    """
    if x.ndim != 3 or x.shape[2] != 2 * cosine.shape[1] or positions.shape != x.shape[:1]:
        raise ShapeError(
            f"rotary needs x (rows, H, D), tables (positions, D/2) and positions (rows,); got {x.shape}, "
            f"{cosine.shape} and {positions.shape}"
        )
    if positions.size and not (positions.min() >= 0 and positions.max() < len(cosine)):
        raise ShapeError(f"rotary has angles for positions 0 to {len(cosine) - 1}, not for {positions.max()}")
    cosine, sine = (np.require(table, x.dtype, ["C", "W"]) for table in (cosine, sine))
    places = np.require(positions, np.int64, ["C", "W"])

    def backward(dy: Array) -> Array:
        # The transpose turns back, and stretches again where cosine and sine were stretched.
        return kernels.rotate(dy, cosine, sine, places, -1, interleaved)

    return kernels.rotate(x, cosine, sine, places, 1, interleaved), backward
