"""Signs and names for operations: what ``a + b``, ``x[2:]`` and ``x.sum()`` mean.

Each is one line that calls `minigrad.ops`. The package is named in full, and so looked up when an operator is used:
the operations are made of tensors, so they cannot be imported before tensors exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

import minigrad
from minigrad.errors import InputError

if TYPE_CHECKING:
    from minigrad.tensor import Tensor


def plain(value: Any) -> Any:
    """Take the arrays out of an index or an operand that may hold tensors."""
    if isinstance(value, Operators):
        return value.data
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return value


def _listed(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Accept x.reshape(2, 3) as well as x.reshape((2, 3))."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes


def _compare(comparison: np.ufunc, a: Any, b: Any) -> Tensor:
    return minigrad.Tensor(np.asarray(comparison(plain(a), plain(b))))


_COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


class Operators:
    """The operators and methods of a Tensor, without the tensor itself."""

    __slots__ = ()

    data: Any
    requires_grad: Any

    def __getitem__(self, index: Any) -> Tensor:
        return minigrad.ops.slice(self, index=plain(index))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if self.requires_grad:
            raise InputError(
                "NumPy cannot use a tensor that requires a gradient, because the gradient would be lost; use the "
                "functions of minigrad.ops, or .detach().numpy() if no gradient is wanted"
            )
        return np.array(self.data, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Tensor:
        """Let ``array + tensor`` and ``np.exp(tensor)`` mean the operation of the same name."""
        if method == "__call__" and not options:
            if ufunc.__name__ in _COMPARISONS:
                return _compare(ufunc, *inputs)
            if ufunc.__name__ == "power" and isinstance(inputs[0], Operators):
                return inputs[0] ** inputs[1]
            if (
                ufunc.__name__ != "power" and ufunc.__name__ in minigrad.ops.__all__
            ):  # the operations are called what NumPy calls them
                result: Tensor = getattr(minigrad.ops, ufunc.__name__)(*inputs)
                return result
        raise InputError(
            f"np.{ufunc.__name__} does not know gradients; use the functions of minigrad.ops, or "
            ".detach().numpy() if no gradient is wanted"
        )

    def __add__(self, other: Any) -> Tensor:
        return minigrad.ops.add(self, other)

    def __radd__(self, other: Any) -> Tensor:
        return minigrad.ops.add(other, self)

    def __sub__(self, other: Any) -> Tensor:
        return minigrad.ops.subtract(self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return minigrad.ops.subtract(other, self)

    def __mul__(self, other: Any) -> Tensor:
        return minigrad.ops.multiply(self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return minigrad.ops.multiply(other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return minigrad.ops.divide(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return minigrad.ops.divide(other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return minigrad.ops.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return minigrad.ops.matmul(other, self)

    def __neg__(self) -> Tensor:
        return minigrad.ops.negative(self)

    def __pow__(self, exponent: float) -> Tensor:
        return minigrad.ops.power(self, exponent=exponent)

    # Comparisons give tensors of booleans; there is no gradient to give.
    def __lt__(self, other: Any) -> Tensor:
        return _compare(np.less, self, other)

    def __le__(self, other: Any) -> Tensor:
        return _compare(np.less_equal, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _compare(np.greater, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _compare(np.greater_equal, self, other)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return _compare(np.equal, self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return _compare(np.not_equal, self, other)

    __hash__ = object.__hash__

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Add up over `axis` (all axes by default)."""
        return minigrad.ops.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Average over `axis` (all axes by default)."""
        return minigrad.ops.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        """Take the largest value over `axis` (all axes by default)."""
        return minigrad.ops.max(self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Tensor:
        """Return the same numbers in another shape."""
        return minigrad.ops.reshape(self, shape=_listed(shape))

    def transpose(self, *axes: Any) -> Tensor:
        """Permute the axes; with no argument, reverse them."""
        return minigrad.ops.transpose(self, axes=_listed(axes) or None)

    def softmax(self, axis: int = -1) -> Tensor:
        """Turn scores along `axis` into probabilities."""
        return minigrad.ops.softmax(self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Tensor:
        """The logarithm of `softmax`, computed without losing small probabilities."""
        return minigrad.ops.log_softmax(self, axis=axis)

    def exp(self) -> Tensor:
        """e to the power of each element."""
        return minigrad.ops.exp(self)

    def log(self) -> Tensor:
        """The natural logarithm of each element."""
        return minigrad.ops.log(self)

    def sqrt(self) -> Tensor:
        """The square root of each element."""
        return minigrad.ops.sqrt(self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent of each element."""
        return minigrad.ops.tanh(self)

    def sigmoid(self) -> Tensor:
        """The logistic function of each element."""
        return minigrad.ops.sigmoid(self)

    def relu(self) -> Tensor:
        """Each element, or zero where it is negative."""
        return minigrad.ops.relu(self)

    def astype(self, dtype: DTypeLike) -> Tensor:
        """Return the tensor in another floating-point type; the gradient comes back in this one."""
        return minigrad.ops.astype(self, dtype=dtype)
