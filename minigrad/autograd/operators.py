"""Tensor operators and methods: what ``a + b``, ``x[2:]`` and ``x.sum()`` compute.

Each looks its operation up by name in the table `OPS`, which `@op` fills (see `minigrad.autograd.op`), because the
operations are defined in files that import this one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from minigrad.errors import InputError, ShapeError
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


def tensors_in(value: Any) -> list[Any]:
    """Return the tensors in an argument, or in a list, tuple or dictionary of arguments."""
    if isinstance(value, Operators):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in items for tensor in tensors_in(item)]


def replace_tensors(value: Any, new: Callable[[Any], Any]) -> Any:
    """Return a value with each of the `tensors_in` it, in their order, replaced by what `new` makes of it."""
    if isinstance(value, Operators):
        return new(value)
    if isinstance(value, dict):
        return {key: replace_tensors(item, new) for key, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    items = [replace_tensors(item, new) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)  # a NamedTuple, or another one


def _as_tuple(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the sizes, given as in x.reshape(2, 3) or as in x.reshape((2, 3))."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes


# NumPy functions on tensors. `_METHODS` and `_JOINS` run the operation of the same name. The results of `_CONSTANT` do
# not depend on the values of the tensor. `_WRITERS` are refused. All others run on the arrays, and are refused if a
# gradient would be lost.
_METHODS = ("sum", "mean", "max", "min", "var", "reshape", "transpose", "swapaxes")
_JOINS = ("concatenate", "stack")
_CONSTANT = ("zeros_like", "ones_like", "empty_like", "full_like")
_WRITERS = {  # the name of the argument that they write into, which is their first
    "copyto": "dst", "fill_diagonal": "a", "place": "arr", "put": "a", "put_along_axis": "arr", "putmask": "a",
}  # fmt: skip
_COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def _no_gradient(name: str) -> InputError:
    return InputError(
        f"np.{name}, called like this, does not compute gradients; use a method of the tensor or a function of "
        "minigrad.ops, or .detach().numpy() if no gradient is wanted"
    )


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods of ``a + b``: the one of a, and the one of b if a is not a tensor."""
    return lambda self, other: OPS[name](self, other), lambda self, other: OPS[name](other, self)


def _comparison(comparison: np.ufunc) -> Callable[..., Any]:
    """Return the method that compares element by element; the resulting tensor of booleans has no gradient."""
    return lambda self, other: self.wrap(np.asarray(comparison(self.data, unwrap(other))))


class Operators:
    """The operators and methods of a Tensor, its base class.

    Options that a method does not know are passed on to its operation, whose error says which there are.
    """

    __slots__ = ()

    data: Any
    requires_grad: Any
    version: Any
    wrap: Any

    def __getitem__(self, index: Any) -> Self:
        return OPS["slice"](self, index=unwrap(index))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if self.requires_grad:
            raise InputError(
                "NumPy cannot use a tensor that requires a gradient, because the gradient would be lost; use the "
                "functions of minigrad.ops, or .detach().numpy() if no gradient is wanted"
            )
        return np.array(self.data, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Run the operation of the same name for ``array + tensor`` or ``np.exp(tensor)``; others get the arrays.

        Raises InputError if such a function would lose a gradient, or would write into a tensor.
        """
        if method == "__call__" and not options:
            if ufunc.__name__ == "power":
                base, exponent = inputs
                return base**exponent if isinstance(base, Operators) else exponent.__rpow__(base)
            if ufunc.__name__ in _COMPARISONS:
                return self.wrap(np.asarray(ufunc(*map(unwrap, inputs))))
            if ufunc.__name__ in OPS:  # operations have the names of the NumPy functions
                return OPS[ufunc.__name__](*inputs)
        loses = any(tensor.requires_grad for tensor in tensors_in(inputs))
        target = inputs[:1] if method == "at" else options.get("out", ())  # what the function writes into
        if not tensors_in((target, options)) and not (loses and target):
            result = getattr(ufunc, method)(*map(unwrap, inputs), **options)
            if not loses or np.asarray(result).dtype.kind not in "fc":
                return result
        raise _no_gradient(ufunc.__name__)

    def __array_function__(self, function: Any, types: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the operation of the same name for ``np.sum(tensor)``; other functions of NumPy get the arrays.

        Raises InputError if such a function would write into a tensor, or would lose a gradient: unless it returns no
        floats, as np.argmax does.
        """
        name = {np.amax: "max", np.amin: "min"}.get(function, function.__name__)
        # The third argument by position is a dtype, an order or an output, which these operations do not have.
        is_known = not options.keys() - {"axis", "keepdims"} and (len(inputs) <= 2 or name == "swapaxes")
        if name in _METHODS and inputs and isinstance(inputs[0], Operators) and is_known:
            return getattr(inputs[0], name)(*inputs[1:], **options)
        if name in _JOINS and inputs and is_known:
            return OPS[name](*inputs[0], **dict(zip(("axis",), inputs[1:], strict=False)), **options)
        if name == "where" and len(inputs) == 3:
            return OPS["where"](*inputs)
        target = options.get("out") if name not in _WRITERS else inputs[:1] or options[_WRITERS[name]]
        if tensors_in(target):
            raise InputError(f"np.{name} would change a tensor unnoticed; write tensor[...] = values instead")
        loses = name not in _CONSTANT and any(tensor.requires_grad for tensor in tensors_in((inputs, options)))
        result = function(*replace_tensors(inputs, unwrap), **replace_tensors(options, unwrap))
        parts = result if isinstance(result, (tuple, list)) else (result,)
        if loses and any(part is None or np.asarray(part).dtype.kind in "fc" for part in parts):
            raise _no_gradient(function.__name__)
        return result

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __matmul__, __rmatmul__ = _binary("matmul")

    def __neg__(self) -> Self:
        return OPS["negative"](self)

    def __pow__(self, exponent: float) -> Self:
        return OPS["power"](self, exponent=exponent)

    def __rpow__(self, base: float) -> Self:
        """Return ``base ** self`` for a positive number, $e^{x \\ln b}$."""
        if not isinstance(base, int | float | np.number) or base <= 0:
            raise InputError(f"a power with a tensor as exponent needs a base above 0, not {base!r}")
        return OPS["exp"](self * math.log(base))

    def __abs__(self) -> Self:
        return OPS["absolute"](self)

    __lt__, __le__ = _comparison(np.less), _comparison(np.less_equal)
    __gt__, __ge__ = _comparison(np.greater), _comparison(np.greater_equal)
    __eq__, __ne__ = _comparison(np.equal), _comparison(np.not_equal)
    __hash__ = object.__hash__

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, **unknown: Any) -> Self:
        """Add up over `axis` (all axes by default)."""
        return OPS["sum"](self, axis=axis, keepdims=keepdims, **unknown)

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, **unknown: Any) -> Self:
        """Average over `axis` (all axes by default)."""
        return OPS["mean"](self, axis=axis, keepdims=keepdims, **unknown)

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, **unknown: Any) -> Self:
        """Take the largest value over `axis` (all axes by default)."""
        return OPS["max"](self, axis=axis, keepdims=keepdims, **unknown)

    def min(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, **unknown: Any) -> Self:
        """Take the smallest value over `axis` (all axes by default)."""
        return OPS["min"](self, axis=axis, keepdims=keepdims, **unknown)

    def var(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, **unknown: Any) -> Self:
        """Average the squared distance from the mean over `axis` (all axes by default), as `np.var` does."""
        distance = self - self.mean(axis, keepdims=True, **unknown)
        return (distance * distance).mean(axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Self:
        """Return the index of the largest value along `axis` (by default in the flat tensor); it has no gradient."""
        places = np.argmax(self.data, axis=axis, keepdims=True)
        result: Self = self.wrap(np.asarray(places if keepdims else places.squeeze(axis)))
        return result

    def reshape(self, *shape: Any) -> Self:
        """Return the same elements in another shape."""
        return OPS["reshape"](self, shape=_as_tuple(shape))

    def transpose(self, *axes: Any) -> Self:
        """Permute the axes; with no argument, reverse them."""
        return OPS["transpose"](self, axes=None if axes in ((), (None,)) else _as_tuple(axes))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Exchange two axes; raises ShapeError if one does not exist."""
        axes = list(range(self.data.ndim))
        try:
            axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
        except IndexError:
            raise ShapeError(f"swapaxes got axes {axis1} and {axis2} for shape {self.data.shape}") from None
        return OPS["transpose"](self, axes=tuple(axes))

    def softmax(self, axis: int = -1, **unknown: Any) -> Self:
        """Convert the values along `axis` to probabilities."""
        return OPS["softmax"](self, axis=axis, **unknown)

    def log_softmax(self, axis: int = -1, **unknown: Any) -> Self:
        """Return the logarithm of the softmax along `axis`, computed without losing small probabilities."""
        return OPS["log_softmax"](self, axis=axis, **unknown)

    def abs(self) -> Self:
        """Return each element without its sign."""
        return OPS["absolute"](self)

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
