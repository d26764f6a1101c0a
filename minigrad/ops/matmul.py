"""Matrix products: most of the arithmetic of a language model."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.op import op
from minigrad.autograd.profile import FLOPS
from minigrad.errors import ShapeError
from minigrad.kernels.gemm.backend import blas_products, goes_to_blas, product, product_into
from minigrad.typing import Array


def matmul_formula(a: Array, b: Array) -> Array:
    """Compute `matmul` in plain NumPy, as the sum over k."""
    rows, columns = a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    y = np.einsum("...ik,...kj->...ij", rows, columns)
    y = y[..., 0, :] if a.ndim == 1 else y
    return y[..., 0] if b.ndim == 1 else y


@op
def matmul(a: Array, b: Array) -> tuple[Array, Backward]:
    r"""Multiply matrices, batch by batch: $y_{ij} = \sum_k a_{ik} b_{kj}$.

    $dL/da = dy\, b^T$ and $dL/db = a^T dy$: the only products of these matrices that have the right shapes.
    Shapes: a (..., M, K), b (..., K, N) -> (..., M, N); leading axes broadcast; a vector counts as one row (a) or one
    column (b), and the result lacks that axis.  Raises ShapeError if the inner sizes differ.
    """
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ShapeError(
            f"matmul cannot multiply shapes {a.shape} and {b.shape}: the last size of the first must equal the "
            "second-last of the second. Use .transpose(...) if one of them is transposed."
        )
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"matmul cannot multiply shapes {a.shape} and {b.shape}: the axes before the last two must broadcast"
        ) from None
    rows, columns = a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b

    if b.ndim == 2 and a.ndim >= 2:  # one matrix for all: one large product instead of many small ones
        count = math.prod(a.shape[:-1])
        flat = a.reshape(count, a.shape[-1])

        def backward_flat(dy: Array) -> tuple[Array, Deferred]:
            dy_rows = dy.reshape(count, dy.shape[-1])
            write = functools.partial(product_into, flat.T, dy_rows)
            return product(dy_rows, b.T).reshape(a.shape), Deferred(b.shape, b.dtype, write)

        return product(flat, b).reshape(*a.shape[:-1], b.shape[1]), backward_flat

    def backward(dy: Array) -> tuple[Array, Array]:
        if b.ndim == 1:
            dy = dy[..., None]
        if a.ndim == 1:
            dy = dy[..., None, :]
        da, db = _batched(dy, columns.swapaxes(-1, -2)), _batched(rows.swapaxes(-1, -2), dy)
        # Only a vector's axis of size 1 is removed here; broadcast leading axes are summed by the engine.
        return da[..., 0, :] if a.ndim == 1 else da, db[..., 0] if b.ndim == 1 else db

    y = _batched(rows, columns)
    y = y[..., 0, :] if a.ndim == 1 else y
    return y[..., 0] if b.ndim == 1 else y, backward


def linear_formula(x: Array, weight: Array, bias: Array | None = None, *, inputs_first: bool = False) -> Array:
    """Compute `linear` in plain NumPy, as the sum over the inputs."""
    y = np.einsum("...i,io->...o" if inputs_first else "...i,oi->...o", x, weight)
    return y if bias is None else y + bias


@op
def linear(x: Array, weight: Array, bias: Array | None = None, *, inputs_first: bool = False) -> tuple[Array, Backward]:
    r"""Apply a weight matrix to every row, and add a bias: $y = x W^T + b$.

    $dx = dy\, W$, $dW = dy^T x$, and $db$ is the sum of the rows of $dy$. The bias may be left out.
    The matrix is stored ``[out, in]``, one row per output, as published checkpoints do; or ``[in, out]`` with
    `inputs_first`, as GPT-2's: $y = x W + b$.
    Shapes: x (..., in), weight (out, in) or (in, out), bias (out,) -> (..., out).
    Raises ShapeError if they do not fit.

    >>> from minigrad import Tensor, ops
    >>> ops.linear(Tensor([1.0, 2.0]), Tensor([[3.0, 4.0]]), Tensor([0.5])).tolist()
    [11.5]
    """
    matrix = weight.T if inputs_first else weight  # (out, in)
    check_linear(x, weight, matrix, bias)
    count = math.prod(x.shape[:-1])
    rows = x.reshape(count, x.shape[-1])  # one large product instead of many small ones
    shape, has_bias = x.shape, bias is not None  # backward keeps no more arrays than it reads

    def backward(dy: Array) -> tuple[Array, Deferred, Array | None]:
        dy_rows = dy.reshape(count, dy.shape[-1])
        factors = (rows.T, dy_rows) if inputs_first else (dy_rows.T, rows)
        dw = Deferred(weight.shape, weight.dtype, functools.partial(product_into, *factors))
        return product(dy_rows, matrix).reshape(shape), dw, dy_rows.sum(axis=0) if has_bias else None

    y = product(rows, matrix.T)
    if bias is not None:
        y += bias
    return y.reshape(*x.shape[:-1], matrix.shape[0]), backward


def check_linear(x: Array, weight: Array, matrix: Array, bias: Array | None) -> None:
    """Raise ShapeError unless a weight, which is the `matrix` (out, in) or its transpose, and a bias fit the input."""
    if weight.ndim != 2 or not x.ndim or x.shape[-1] != matrix.shape[1]:
        stored = "(out, in)" if matrix is weight else "(in, out)"
        raise ShapeError(
            f"linear cannot apply a weight of shape {weight.shape} {stored} to input of shape {x.shape}: "
            "the last size of the input must be `in`"
        )
    if bias is not None and bias.shape != matrix.shape[:1]:
        raise ShapeError(f"linear needs one bias for each of {len(matrix)} outputs, not a bias of shape {bias.shape}")


def _batched(a: Array, b: Array) -> Array:
    """Multiply matrices, batch by batch; the leading axes broadcast."""
    if goes_to_blas(a, b):
        return blas_products(a, b)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = math.prod(lead)
    left = np.broadcast_to(a, (*lead, *a.shape[-2:])).reshape(count, *a.shape[-2:])
    right = np.broadcast_to(b, (*lead, *b.shape[-2:])).reshape(count, *b.shape[-2:])
    y = np.empty((count, a.shape[-2], b.shape[-1]), a.dtype)
    for x, z, out in zip(left, right, y, strict=True):
        product_into(x, z, out, False)
    return y.reshape(*lead, *y.shape[1:])


def _flops(a: Array, b: Array) -> float:
    lead, columns = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), b.shape[-1] if b.ndim > 1 else 1
    return 2.0 * math.prod((*lead, *a.shape[-2:], columns))


def _for_each_factor(parents: Sequence[object]) -> float:
    """Count a product for each of two factors that needs a gradient."""
    return float(sum(each is not None for each in parents[:2]))


FLOPS["matmul"] = (_flops, 1, _for_each_factor)
FLOPS["linear"] = (lambda x, weight, *bias, **options: 2.0 * math.prod(x.shape[:-1]) * weight.size, 1, _for_each_factor)
