"""The Kronecker product: the outer product of two tensors, with each pair of axes joined into one.

The outer product is the well-defined form. It keeps the axes of both tensors apart, so trailing zeros of either one
remain trailing zeros. The Kronecker product interleaves them: there, zeros at the end of the second tensor end up
between other elements, so its result depends on the member of the class that it is given (docs/variable_shapes.md).
"""

from __future__ import annotations

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.errors import ShapeError


def kronecker(a: Tensor, b: Tensor) -> Tensor:
    r"""Replace each element of a by its product with all of b: $y_{i n + j} = a_i b_j$ along each axis, b of size n.

    Shapes: a (m_0, m_1, ...), b (n_0, n_1, ...) -> (m_0 n_0, m_1 n_1, ...).  Raises ShapeError if they differ in their
    number of axes.

    >>> kronecker(Tensor([1, 2]), Tensor([10, 20, 30])).tolist()
    [10, 20, 30, 20, 40, 60]
    """
    if a.ndim != b.ndim:
        raise ShapeError(f"kronecker needs tensors with equally many axes; got shapes {a.shape} and {b.shape}")
    pairs = [axis for own in range(a.ndim) for axis in (own, a.ndim + own)]  # (m_0, n_0, m_1, n_1, ...)
    shape = tuple(m * n for m, n in zip(a.shape, b.shape, strict=True))
    return ops.outer(a, b).transpose(*pairs).reshape(shape)
