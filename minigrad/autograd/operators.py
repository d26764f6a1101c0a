"""Tensor operators and methods: what ``a + b``, ``x[2:]`` and ``x.sum()`` compute.

Each looks its operation up by name in the table `OPS`, which `@op` fills (see `minigrad.autograd.op`), because the
operations are defined in files that import this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from minigrad.errors import InputError
from minigrad.typing import Array

OPS: dict[str, Callable[..., Any]] = {}
"""Every operation by its name, filled by `@op`."""


def unwrap(value: Any) -> Any:
    """Return the array of a tensor; of a tuple, such as an index, every element unwrapped; anything else unchanged."""
    if isinstance(value, Operators):
        return value.data
    if isinstance(value, tuple):
        return tuple(unwrap(item) for item in value)
    return value


def _as_tuple(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the sizes, given as in x.reshape(2, 3) or as in x.reshape((2, 3))."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes


_COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


class Operators:
    """The operators and methods of a Tensor, its base class."""

    __slots__ = ()

    data: Any
    requires_grad: Any

    @staticmethod
    def wrap(array: Array) -> Any:
        """Return a tensor over `array`; Tensor defines it."""
        raise TypeError("operators belong to a Tensor")

    def _compare(self, comparison: np.ufunc, other: Any) -> Self:
        """Compare element by element; the resulting tensor of booleans has no gradient."""
        result: Self = self.wrap(np.asarray(comparison(self.data, unwrap(other))))
        return result

    def __getitem__(self, index: Any) -> Self:
        return OPS["slice"](self, index=unwrap(index))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if self.requires_grad:
            raise InputError(
                "NumPy cannot use a tensor that requires a gradient, because the gradient would be lost; use the "
                "functions of minigrad.ops, or .detach().numpy() if no gradient is wanted"
            )
        return np.array(self.data, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Self:
        """Run the operation of the same name for ``array + tensor`` or ``np.exp(tensor)``."""
        if method == "__call__" and not options:
            if ufunc.__name__ in _COMPARISONS:
                compared: Self = self.wrap(np.asarray(ufunc(*map(unwrap, inputs))))
                return compared
            if ufunc.__name__ == "power" and isinstance(inputs[0], Operators):
                return inputs[0] ** inputs[1]
            if ufunc.__name__ != "power" and ufunc.__name__ in OPS:  # operations have the names of the NumPy functions
                result: Self = OPS[ufunc.__name__](*inputs)
                return result
        raise InputError(
            f"np.{ufunc.__name__} does not compute gradients; use the functions of minigrad.ops, or "
            ".detach().numpy() if no gradient is wanted"
        )

    def __add__(self, other: Any) -> Self:
        return OPS["add"](self, other)

    def __radd__(self, other: Any) -> Self:
        return OPS["add"](other, self)

    def __sub__(self, other: Any) -> Self:
        return OPS["subtract"](self, other)

    def __rsub__(self, other: Any) -> Self:
        return OPS["subtract"](other, self)

    def __mul__(self, other: Any) -> Self:
        return OPS["multiply"](self, other)

    def __rmul__(self, other: Any) -> Self:
        return OPS["multiply"](other, self)

    def __truediv__(self, other: Any) -> Self:
        return OPS["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return OPS["divide"](other, self)

    def __matmul__(self, other: Any) -> Self:
        return OPS["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return OPS["matmul"](other, self)

    def __neg__(self) -> Self:
        return OPS["negative"](self)

    def __pow__(self, exponent: float) -> Self:
        return OPS["power"](self, exponent=exponent)

    def __lt__(self, other: Any) -> Self:
        return self._compare(np.less, other)

    def __le__(self, other: Any) -> Self:
        return self._compare(np.less_equal, other)

    def __gt__(self, other: Any) -> Self:
        return self._compare(np.greater, other)

    def __ge__(self, other: Any) -> Self:
        return self._compare(np.greater_equal, other)

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self._compare(np.equal, other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self._compare(np.not_equal, other)

    __hash__ = object.__hash__

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Self:
        """Add up over `axis` (all axes by default)."""
        return OPS["sum"](self, axis=axis, keepdims=keepdims)

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Self:
        """Average over `axis` (all axes by default)."""
        return OPS["mean"](self, axis=axis, keepdims=keepdims)

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Self:
        """Take the largest value over `axis` (all axes by default)."""
        return OPS["max"](self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Self:
        """Return the same elements in another shape."""
        return OPS["reshape"](self, shape=_as_tuple(shape))

    def transpose(self, *axes: Any) -> Self:
        """Permute the axes; with no argument, reverse them."""
        return OPS["transpose"](self, axes=_as_tuple(axes) or None)

    def softmax(self, axis: int = -1) -> Self:
        """Convert the values along `axis` to probabilities."""
        return OPS["softmax"](self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Self:
        """Return the logarithm of the softmax along `axis`, computed without losing small probabilities."""
        return OPS["log_softmax"](self, axis=axis)

    def exp(self) -> Self:
        """Return e to the power of each element."""
        return OPS["exp"](self)

    def log(self) -> Self:
        """Return the natural logarithm of each element."""
        return OPS["log"](self)

    def sqrt(self) -> Self:
        """Return the square root of each element."""
        return OPS["sqrt"](self)

    def tanh(self) -> Self:
        """Return the hyperbolic tangent of each element."""
        return OPS["tanh"](self)

    def sigmoid(self) -> Self:
        """Return the logistic function of each element."""
        return OPS["sigmoid"](self)

    def relu(self) -> Self:
        """Return each element, or zero where it is negative."""
        return OPS["relu"](self)

    def astype(self, dtype: DTypeLike) -> Self:
        """Convert to another dtype; the gradient is converted back to this one."""
        return OPS["astype"](self, dtype=dtype)
