"""Embedding: a table with one row of numbers per token."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.op import op
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.rowwise import embedding as kernels
from minigrad.typing import Array


@op
def embedding(weight: Array, ids: Array) -> tuple[Array, Backward]:
    """Look up rows of a table: $y_t = W_{id_t}$.

    It is a matrix product with one-hot rows, done without the zeros; so its gradient adds each dy_t to row id_t.
    Shapes: weight (V, C), ids (...) whole numbers in [0, V) -> (..., C).
    Raises ShapeError if the table is not a matrix, InputError if an id is no whole number or out of range.
    """
    if weight.ndim != 2:
        raise ShapeError(f"embedding needs a table of shape (V, C), not {weight.shape}")
    if ids.dtype.kind not in "iu":
        raise InputError(f"embedding needs whole numbers as ids, not {ids.dtype}")
    size = weight.shape[0]
    if ids.size and (ids.min() < 0 or ids.max() >= size):
        raise InputError(
            f"embedding got ids from {ids.min()} to {ids.max()}, but the table has rows 0 to {size - 1}; "
            "was the text encoded with another tokenizer?"
        )
    flat, shape, dtype = ids.reshape(-1).astype(np.int64), weight.shape, weight.dtype

    def backward(dy: Array) -> tuple[Deferred, None]:
        def write(dw: Array, add: bool) -> None:
            if not add:
                dw[...] = 0
            kernels.scatter_add(dy, flat, dw)

        return Deferred(shape, dtype, write), None

    return weight[ids], backward
