"""Matrices in float16, bfloat16, int8 or int4: less memory, and tokens written faster, by up to the same factor.

Products take place in float32: the weights are widened as they are read, while activations stay floats. So the pass
over a prompt and the pass over one token compute with the same numbers, and their logits agree. Some programs round the
activations too, to use 8-bit instructions. That would save no time here, because reading the weights takes most of it,
and the two passes would differ. A quantised matrix cannot be trained: its rounding has no gradient. But it passes
gradients on, so that adapters beside it can be trained (`minigrad.adapters`; Dettmers et al. 2023, "QLoRA", arXiv
2305.14314).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.gradients import Backward
from minigrad.autograd.graph import is_recording, refusing
from minigrad.autograd.op import op
from minigrad.autograd.profile import FLOPS
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.kernels.decoding.lines import Packed, pack, widen
from minigrad.kernels.decoding.products import multiply_few
from minigrad.kernels.gemm.backend import are_rows_apart, product, product_into, rounds
from minigrad.nn.parameter import Parameter
from minigrad.ops.embedding import check_ids
from minigrad.ops.matmul import check_linear
from minigrad.typing import Array

SCALES = ".scales"
"""What follows the name of a matrix in the name of its scales in a file."""

_FEW = 16  # rows that are multiplied with lines as they are; for more, it is faster to widen the lines once
_WIDENED = 1 << 22  # elements of a matrix that are widened at a time: 16 MB


class QuantisedParameter(Parameter):
    """A frozen matrix in a small format. Reading its `data` makes a float32 array, and setting it rounds the values.

    A matrix stored (in, out) is `transposed`: its lines are its columns, so that each line belongs to one output. Its
    `name` is for errors.
    """

    __slots__ = ("name", "packed", "transposed")

    is_placed = False
    packed: Packed

    def __init__(self, parameter: Parameter, format: str, transposed: bool = False, name: str = "the matrix") -> None:
        Tensor.__init__(self, np.broadcast_to(np.float32(0), parameter.shape))  # a shape that takes no memory
        self.init, self.transposed, self.name = parameter.init, transposed, name
        rows, columns = parameter.shape
        self.packed = Packed.empty(format, (columns, rows) if transposed else (rows, columns))
        if parameter.has_memory:
            self.data = parameter.data

    @property
    def data(self) -> Array:
        """The values, in a new float32 array."""
        lines = widen(self.packed, np.arange(self.packed.shape[0]))
        return lines.T if self.transposed else lines

    @data.setter
    def data(self, value: ArrayLike) -> None:
        array = np.asarray(value)
        if array.shape != self.shape:
            raise InputError(f"values of shape {array.shape} cannot replace a matrix of shape {self.shape}")
        try:
            self.packed = pack(array.T if self.transposed else array, self.packed.format)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None
        self.version.count += 1

    def stored(self) -> dict[str, Array]:
        """Return the numbers of the matrix, line by line, and their scales."""
        stored = self.packed.stored()
        return {"": stored.elements} | ({} if stored.scales is None else {SCALES: stored.scales})

    @property
    def requires_grad(self) -> bool:
        """False: it has no gradient."""
        return False

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted:
            raise InputError(f"a matrix stored as {self.packed.format} cannot be trained; load the model as float32")


@op
def quantised_linear(x: Array, bias: Array | None = None, *, matrix: Packed) -> tuple[Array, Backward]:
    """Compute $y = x W^T + b$ with a rounded W, which has no gradient.

    Shapes: x (..., inputs), bias (outputs,), matrix (outputs, inputs) -> (..., outputs).  Raises ShapeError if they do
    not fit.
    """
    (outputs, inputs), shape, has_bias = matrix.shape, x.shape, bias is not None
    check_linear(x, _without_values(matrix), _without_values(matrix), bias)
    count = math.prod(shape[:-1])
    is_plain = not (rounds(x.dtype) or are_rows_apart())  # `multiply_few` does neither
    is_short = x.dtype == np.float32 and (count == 0 or (count <= _FEW and is_plain))
    multiply = multiply_few if is_short else _multiply_many
    y = multiply(x.reshape(count, inputs), matrix)
    if bias is not None:
        y += bias

    def backward(dy: Array) -> tuple[Array, Array | None]:
        dx = _multiply_back(dy.reshape(count, outputs), matrix).reshape(shape)
        return dx, dy if has_bias else None

    return y.reshape(*shape[:-1], outputs), backward


FLOPS["quantised_linear"] = (lambda x, *bias, matrix: 2.0 * math.prod(x.shape[:-1]) * math.prod(matrix.shape), 1, 1)


@op(integers=("ids",), integer_dtype="any")
def quantised_embedding(ids: Array, *, matrix: Packed) -> tuple[Array, Backward]:
    """Look up rows of a rounded table, which has no gradient.

    Shapes: ids (...) integers, matrix (vocab_size, width) -> (..., width).  Raises InputError for ids out of range.
    """
    check_ids(_without_values(matrix), ids)
    rows = widen(matrix, ids.reshape(-1).astype(np.int64))

    def backward(dy: Array) -> None:
        return None

    return rows.reshape(*ids.shape, matrix.shape[1]), backward


def refuse_training(x: Tensor, format: str) -> Tensor:
    """Let backward() raise GraphError when it reaches x, if x has no gradient because the model is quantised."""
    if x.node is not None or not is_recording():
        return x
    message = f"a model whose weights are stored as {format} cannot be trained; load it as float32"
    same = Tensor(x.data)
    same.node = refusing("a quantised model", x.data, message)
    return same


def _without_values(matrix: Packed) -> Array:
    """Return an array of the shape of a matrix that takes no memory."""
    return np.broadcast_to(np.float32(0), matrix.shape)


def _multiply_back(dy: Array, matrix: Packed) -> Array:
    """Return the gradient dy (n, outputs) times a matrix, (n, inputs)."""
    dx = np.zeros((len(dy), matrix.shape[1]), dy.dtype)
    for part, widened in _parts(matrix, dy.dtype):
        product_into(np.ascontiguousarray(dy[:, part]), widened, dx, part.start > 0)
    return dx


def _multiply_many(rows: Array, matrix: Packed) -> Array:
    """Return rows (n, inputs) times a matrix, (n, outputs)."""
    y = np.empty((len(rows), matrix.shape[0]), rows.dtype)
    for part, widened in _parts(matrix, rows.dtype):
        y[:, part] = product(rows, widened.T)
    return y


def _parts(matrix: Packed, dtype: np.dtype[Any]) -> Iterator[tuple[slice, Array]]:
    """Yield the lines of a matrix, widened to a dtype, a part (n, inputs) at a time."""
    outputs, inputs = matrix.shape
    step = max(1, _WIDENED // max(inputs, 1))
    for start in range(0, outputs, step):
        part = slice(start, min(start + step, outputs))
        yield part, widen(matrix, np.arange(part.start, part.stop)).astype(dtype, copy=False)
