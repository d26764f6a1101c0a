"""The outer product: every element of one tensor times every element of another."""

from __future__ import annotations

import math

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.typing import Array


@op(integer_dtype="int64")
def outer(a: Array, b: Array) -> tuple[Array, Backward]:
    r"""Multiply every pair of elements: $y_{ij} = a_i b_j$, where i and j may be indices of several axes.

    Shapes: a (m, ...), b (n, ...) -> (m, ..., n, ...).

    >>> from minigrad import Tensor, ops
    >>> ops.outer(Tensor([1.0, 2.0]), Tensor([3.0, 4.0, 5.0])).tolist()
    [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    """
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)

    def backward(dy: Array) -> tuple[Array, Array]:
        # Of the matrix dy_{ij}: da_i = sum_j dy_{ij} b_j and db_j = sum_i a_i dy_{ij}.
        matrix = dy.reshape(math.prod(a.shape), math.prod(b.shape))
        return (matrix @ flat_b).reshape(a.shape), (flat_a @ matrix).reshape(b.shape)

    return np.multiply.outer(a, b), backward
