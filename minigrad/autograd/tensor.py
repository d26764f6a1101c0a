"""Tensor: a NumPy array with a record of how it was computed.

The operations on tensors are in `minigrad.ops`, their operators and methods (`a + b`, `x.sum()`) in
`minigrad.autograd.operators`. This file defines the tensor itself: an array, a version, and where gradients are
computed a node of the graph; and new tensors: zeros, ones, a range, and normal draws.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad.autograd.dtypes import from_python, native
from minigrad.autograd.gradients import Version, may_share_memory
from minigrad.autograd.graph import Node, is_recording, run_backward
from minigrad.autograd.operators import Operators, unwrap
from minigrad.errors import GraphError, InputError, ShapeError
from minigrad.random import generator
from minigrad.typing import Array


def _in_place(compute: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the method of ``p -= step``: a leaf, such as a parameter, changes; any other tensor becomes a new one."""

    def update(self: Tensor, other: Any) -> Tensor:
        if not self.is_leaf:
            return compute(self, other)
        if is_recording():
            raise GraphError(
                "a leaf cannot be changed in place while operations are recorded; do it inside `with no_grad():`, or "
                "write y = x + ... for a new tensor"
            )
        result = compute(self, other)
        if result.shape != self.shape:
            raise ShapeError(f"assignment to a tensor of shape {self.shape}: the result has shape {result.shape}")
        self[...] = result
        return self

    return update


class Tensor(Operators):
    """A NumPy array that can take part in the computation of gradients.

    Python numbers and lists become float32 (integers: int64); arrays keep their dtype, and share their memory. With
    `requires_grad` the tensor is a leaf: `backward()` adds to its `grad`. Raises InputError for data that is not
    numeric or has no rectangular shape, and for `requires_grad` with a dtype that is not floating-point.

    >>> x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    array([2., 4., 6.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_data", "node", "version")

    def __init__(self, data: ArrayLike | Tensor, requires_grad: bool = False, dtype: DTypeLike | None = None) -> None:
        given = data.data if isinstance(data, Tensor) else data
        if dtype is None and not isinstance(given, (np.ndarray, np.generic)):
            array = from_python(given)
            array = array.astype(np.float32) if array.dtype == np.float64 else array
        else:
            array = from_python(given, dtype)
        array = native(array)
        if array.dtype.kind not in "fiub":
            raise InputError(f"a Tensor holds numbers, not elements of dtype {array.dtype}")
        self._data: Array = array
        self.version = Version()
        if isinstance(data, Tensor) and may_share_memory(array, data.data):
            self.version = data.version  # a change of the memory counts for both
        self.node: Node | None = None
        if requires_grad:
            self.requires_grad = True

    @staticmethod
    def wrap(array: Array) -> Tensor:
        """Return a tensor over an array of numbers in this machine's byte order, which is not checked again."""
        tensor = Tensor.__new__(Tensor)
        tensor._data, tensor.version, tensor.node = array, Version(), None
        return tensor

    @property
    def data(self) -> Array:
        """The array itself, which is not a copy.

        Change it with ``tensor[...] = value`` or ``tensor.data = value``: these are counted, so that backward() refuses
        a graph that saved the old values. A change as in ``tensor.data[0] = 1`` is not noticed.
        """
        return self._data

    @data.setter
    def data(self, value: ArrayLike) -> None:
        array = np.asarray(value, dtype=self._data.dtype)
        if array.shape != self._data.shape:
            raise ShapeError(f"data of shape {array.shape} cannot replace data of shape {self._data.shape}")
        self._data[...] = array  # into the same memory: a parameter must stay a view of its model's flat array
        self.version.count += 1

    @property
    def grad(self) -> Array | None:
        """The gradient that backward() left on this leaf; None before, and on tensors that are not leaves."""
        if self.node is None or not self.node.is_leaf:
            return None
        if self.node.stale and self.node.gradient is not None:
            self.node.gradient[...] = 0
            self.node.stale = False  # the caller may write into the array
        return self.node.gradient

    @grad.setter
    def grad(self, value: Array | None) -> None:
        if self.node is None or not self.node.is_leaf:
            raise GraphError("only a leaf that requires a gradient has one to set")
        if not isinstance(value, np.ndarray | None):
            raise InputError(f"a gradient is an array, not a {type(value).__name__}; take .numpy() of a tensor")
        if value is not None and (value.shape, value.dtype) != (self.shape, self.dtype):
            raise ShapeError(
                f"a gradient of shape {value.shape} and dtype {value.dtype} does not fit a tensor of shape "
                f"{self.shape} and dtype {self.dtype}"
            )
        if value is not None and not value.flags.writeable:
            value = value.copy()  # more is added to it in place
        self.node.gradient, self.node.stale = value, False

    @property
    def is_leaf(self) -> bool:
        """Whether gradients accumulate in this tensor: it requires one and was not computed from others."""
        return self.node is not None and self.node.is_leaf

    @property
    def has_gradient(self) -> bool:
        """Whether this leaf has a gradient: one arrived, or `grad` was set or read, since it was last set to zero."""
        return self.node is not None and self.node.gradient is not None and not self.node.stale

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor or through it.

        Set it to False to freeze a leaf and drop its gradient, or to True to turn a tensor that was not computed into a
        leaf.
        """
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if self.node is not None and not self.node.is_leaf:
            raise GraphError(
                f"the result of {self.node.name} requires a gradient because what it was computed from does; use "
                "detach() for a tensor without one"
            )
        if wanted and self._data.dtype.kind != "f":
            raise InputError(
                f"a tensor of dtype {self._data.dtype} cannot have a gradient, because it cannot vary "
                "continuously. Use float data (for example dtype='float32'), or leave requires_grad off."
            )
        if wanted != (self.node is not None):
            self.node = Node("leaf", self._data.shape, self._data.dtype) if wanted else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The size along each axis."""
        return self._data.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._data.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of each element."""
        return self._data.dtype

    @property
    def T(self) -> Tensor:  # noqa: N802  (NumPy's name)
        """The tensor with its axes in reverse order."""
        return self.transpose()

    def backward(self, gradient: ArrayLike | None = None) -> None:
        """Add d(self)/d(leaf) to the `grad` of every leaf this tensor was computed from.

        `gradient` (same shape) is the derivative of the loss with respect to this tensor; a tensor with one element
        needs none. The graph is freed in the process, so a second call needs a second forward pass. Raises GraphError
        if the tensor was not computed from a leaf that requires a gradient, or if the graph was freed; ShapeError if
        `gradient` does not fit.
        """
        if self.node is None:
            raise GraphError(
                "backward() needs a tensor computed from a leaf with requires_grad=True; this one was not "
                "(or it was computed inside no_grad())."
            )
        if gradient is None:
            if self.size != 1:
                raise ShapeError(
                    f"backward() of a tensor of shape {self.shape} needs a gradient of that shape; "
                    "or reduce it to one element first, for example with .sum()"
                )
            gradient = np.ones(self.shape, self.dtype)
        # A copy: the array may be the gradient of a leaf, which grows during this pass.
        array = np.array(gradient.data if isinstance(gradient, Tensor) else gradient, dtype=self.dtype)
        if array.shape != self.shape:
            raise ShapeError(f"backward() got a gradient of shape {array.shape} for a tensor of shape {self.shape}")
        run_backward(self.node, array)

    def discard_grad(self) -> None:
        """Treat the gradient of this leaf as zero: the next one overwrites it, and reading `grad` writes zeros."""
        if self.node is not None and self.node.is_leaf:
            self.node.stale = self.node.gradient is not None

    def zero_grad(self) -> None:
        """Set the gradient of this leaf to zero in place; until the next one arrives, it counts as none."""
        if (gradient := self.grad) is not None:
            gradient[...] = 0
            self.discard_grad()

    def detach(self) -> Tensor:
        """Return a tensor over the same array that is not part of the graph."""
        return Tensor(self)

    def numpy(self) -> Array:
        """Return the array, which is not part of the graph."""
        return self.data

    def item(self) -> float | int | bool:
        """Return the only element as a Python number."""
        return self._only_element("item()")

    def _only_element(self, name: str) -> float | int | bool:
        if self.size != 1:
            raise ShapeError(f"{name} needs a tensor with one element; this one has shape {self.shape}")
        value: float | int | bool = self.data.item()
        return value

    def tolist(self) -> Any:
        """Return the elements as nested Python lists."""
        return self.data.tolist()

    def __setitem__(self, index: Any, value: ArrayLike | Tensor) -> None:
        if is_recording() and self.node is not None:
            raise GraphError(
                "a tensor that takes part in a gradient cannot be changed in place; do it inside `with no_grad():`"
            )
        if is_recording() and isinstance(value, Tensor) and value.requires_grad:
            raise GraphError(
                "an assignment is not recorded, so the gradient of the assigned tensor would be lost. Build the result "
                "with ops.where, ops.concatenate or ops.stack, or assign inside `with no_grad():`"
            )
        try:
            self._data[unwrap(index)] = unwrap(value)
        except (ValueError, IndexError) as error:
            raise ShapeError(f"assignment to a tensor of shape {self.shape}: {error}") from None
        self.version.count += 1

    __iadd__, __isub__ = _in_place(operator.add), _in_place(operator.sub)
    __imul__, __itruediv__ = _in_place(operator.mul), _in_place(operator.truediv)
    __ipow__, __imatmul__ = _in_place(operator.pow), _in_place(operator.matmul)

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        name = type(self).__name__
        text = np.array2string(self.data, precision=4, threshold=20, prefix=f"{name}(")
        return f"{name}({text}, dtype={self.dtype}{', requires_grad=True' if self.requires_grad else ''})"

    def __format__(self, specification: str) -> str:
        """Format as text, or with a specification such as ".3f", the only element as a number."""
        return (
            format(self._only_element(f"the format {specification!r}"), specification) if specification else str(self)
        )

    def __float__(self) -> float:
        return float(self._only_element("float()"))

    def __int__(self) -> int:
        return int(self._only_element("int()"))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ShapeError(
                f"a tensor of shape {self.shape} is neither true nor false as a whole; ask .data.any() or .data.all()"
            )
        return bool(self.data.item())


Shape = int | tuple[int, ...]


def zeros(shape: Shape, *, requires_grad: bool = False, dtype: DTypeLike = "float32") -> Tensor:
    """Return a tensor of zeros."""
    return Tensor(np.zeros(shape, dtype), requires_grad)


def ones(shape: Shape, *, requires_grad: bool = False, dtype: DTypeLike = "float32") -> Tensor:
    """Return a tensor of ones."""
    return Tensor(np.ones(shape, dtype), requires_grad)


def arange(*limits: float, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """Return the numbers from a start (default 0) up to, but not including, a stop, in steps of 1 or of a third number.

    Whole numbers give int64, others float32, unless a `dtype` is given.

    >>> arange(1, 7, 2).tolist()
    [1, 3, 5]
    """
    numbers = np.arange(*limits)
    return Tensor(numbers.astype(dtype or (np.float32 if numbers.dtype.kind == "f" else np.int64)), requires_grad)


def randn(shape: Shape, *, seed: int, requires_grad: bool = False, dtype: DTypeLike = "float32") -> Tensor:
    """Return normal draws around 0 with standard deviation 1; they are a function of `seed` and `shape`."""
    return Tensor(generator(seed, "randn").standard_normal(shape).astype(dtype), requires_grad)
