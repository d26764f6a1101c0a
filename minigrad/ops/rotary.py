"""Rotary positions: queries and keys are rotated by angles that grow with the position."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import ShapeError
from minigrad.kernels.rowwise import rotary as kernels
from minigrad.ops.sequences import checked_integers
from minigrad.typing import Array


def rotary_formula(x: Array, *, cosine: Array, sine: Array, positions: Array, interleaved: bool = False) -> Array:
    """Compute `rotary` in plain NumPy."""
    cosine, sine = cosine[positions][:, None], sine[positions][:, None]  # (rows, 1, D/2)
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else np.split(x, 2, axis=-1)  # (rows, H, D/2)
    rotated = a * cosine - b * sine, a * sine + b * cosine
    return np.stack(rotated, axis=-1).reshape(x.shape) if interleaved else np.concatenate(rotated, axis=-1)


@op
def rotary(
    x: Array, *, cosine: Array, sine: Array, positions: Array, interleaved: bool = False
) -> tuple[Array, Backward]:
    r"""Rotate each pair of elements by an angle that grows with the position.

    Su et al. 2021, "RoFormer", arXiv 2104.09864, eq. 34.
    Pair j of a head is $(x_j, x_{j+D/2})$, the half-split convention of Llama, or, `interleaved`,
    $(x_{2j}, x_{2j+1})$ as in the paper. At position p it is rotated by $p\,\theta^{-2j/D}$, whose cosine and sine are
    row p, column j of the tables. The product of a query rotated at p and a key rotated at q depends on p - q only.
    Shapes: x (rows, H, D), cosine and sine (max positions, D/2), positions (rows,) integers -> (rows, H, D).
    Raises ShapeError if these do not fit, or a position is not an integer or lies outside the tables.

    >>> from minigrad import Tensor, ops
    >>> quarter = {"cosine": np.array([[1.0], [0.0]]), "sine": np.array([[0.0], [1.0]])}  # 90 degrees per position
    >>> ops.rotary(Tensor([[[3.0, 4.0]]]), **quarter, positions=np.array([1])).tolist()
    [[[-4.0, 3.0]]]
    """
    positions = checked_integers("positions of rotary", positions)
    are_tables = cosine.ndim == 2 and cosine.shape == sine.shape
    if x.ndim != 3 or not are_tables or x.shape[2] != 2 * cosine.shape[1] or positions.shape != x.shape[:1]:
        raise ShapeError(
            f"rotary needs x (rows, H, D), tables (positions, D/2) and positions (rows,); got {x.shape}, "
            f"{cosine.shape} and {sine.shape}, and {positions.shape}"
        )
    if positions.size and not (positions.min() >= 0 and positions.max() < len(cosine)):
        span = f"{positions.min()} to {positions.max()}"
        raise ShapeError(f"rotary has angles for positions 0 to {len(cosine) - 1}, not for {span}")
    cosine, sine = (np.require(table, x.dtype, ["C", "W"]) for table in (cosine, sine))
    y = kernels.rotate(x, cosine, sine, positions, 1, interleaved)
    # The transpose of a rotation is the rotation by the opposite angle. Tables that also scale a pair, with
    # cosine^2 + sine^2 other than 1, scale its gradient by the same factor.
    return y, lambda dy: kernels.rotate(dy, cosine, sine, positions, -1, interleaved)
