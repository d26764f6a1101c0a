"""Embedding: a table with one row of learned values per token."""

from __future__ import annotations

import numpy as np

from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.op import op
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.rowwise import embedding as kernels
from minigrad.typing import Array


def embedding_formula(weight: Array, ids: Array) -> Array:
    """Compute `embedding` in plain NumPy, as the product of one-hot rows and the table."""
    one_hot = ids[..., None] == np.arange(len(weight))  # (..., V)
    return one_hot.astype(weight.dtype) @ weight


@op(integers=("ids",))
def embedding(weight: Array, ids: Array) -> tuple[Array, Backward]:
    """Look up rows of a table: $y_t = W_{id_t}$.

    Shapes: weight (V, C), ids (...) integers in [0, V) -> (..., C).
    Raises ShapeError if the table is not a matrix, InputError if an id is not an integer or out of range.

    >>> from minigrad import Tensor, ops
    >>> ops.embedding(Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([1, 1, 0])).tolist()
    [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
    """
    check_ids(weight, ids)
    flat, shape, dtype = ids.reshape(-1).astype(np.int64), weight.shape, weight.dtype

    def backward(dy: Array) -> tuple[Deferred, None]:
        # As for a matrix product with one-hot rows, dW = one_hot^T dy: each dy_t is added to row id_t of dW.
        def write(dw: Array, add: bool) -> None:
            if not add:
                dw[...] = 0
            kernels.scatter_add(dy, flat, dw)

        return Deferred(shape, dtype, write), None

    return weight[flat].reshape(*ids.shape, weight.shape[1]), backward


def check_ids(weight: Array, ids: Array) -> None:
    """Raise ShapeError unless a table is a matrix, and InputError unless all ids are numbers of its rows."""
    if weight.ndim != 2:
        raise ShapeError(f"embedding needs a table of shape (V, C), not {weight.shape}")
    if ids.size and ids.dtype.kind not in "iu":  # an empty list is of floats
        raise InputError(f"embedding needs integers as ids, not {ids.dtype}")
    size = weight.shape[0]
    if ids.size and (ids.min() < 0 or ids.max() >= size):
        raise InputError(
            f"embedding got ids from {ids.min()} to {ids.max()}, but the table has rows 0 to {size - 1}; "
            "was the text encoded with another tokenizer?"
        )
