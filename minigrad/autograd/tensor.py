"""Tensor: a NumPy array with a record of how it was computed.

The operations on tensors are in `minigrad.ops`, their operators and methods (`a + b`, `x.sum()`) in
`minigrad.autograd.operators`. This file defines the tensor itself: an array, a version, and where gradients are
computed a node of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad.autograd.graph import Node, Version, is_recording, run_backward
from minigrad.autograd.operators import Operators, unwrap
from minigrad.errors import GraphError, InputError, ShapeError
from minigrad.typing import Array


class Tensor(Operators):
    """A NumPy array that can take part in the computation of gradients.

    Python numbers and lists become float32 (integers: int64); arrays keep their dtype. With `requires_grad` the tensor
    is a leaf: `backward()` adds to its `grad`. Raises InputError for data that is not numeric, and for
    `requires_grad` with a dtype that is not floating-point.

    >>> x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    array([2., 4., 6.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_data", "node", "version")

    def __init__(self, data: ArrayLike | Tensor, requires_grad: bool = False, dtype: DTypeLike | None = None) -> None:
        # A tensor over the memory of another one shares its version, so that a change counts for both.
        version: Version = data.version if isinstance(data, Tensor) else Version()
        data = data.data if isinstance(data, Tensor) else data
        if type(data) is np.ndarray and dtype is None:
            array = data
        elif dtype is None and not isinstance(data, (np.ndarray, np.generic)):
            array = np.asarray(data)
            array = array.astype(np.float32) if array.dtype == np.float64 else array
        else:
            array = np.asarray(data, dtype=dtype)
        if array.dtype.kind not in "fiub":
            raise InputError(f"a Tensor holds numbers, not elements of dtype {array.dtype}")
        self._data: Array = array
        self.version: Version = version
        self.node: Node | None = None
        if requires_grad:
            if array.dtype.kind != "f":
                raise InputError(
                    f"a tensor of dtype {array.dtype} cannot have a gradient, because it cannot vary "
                    "continuously. Use float data (for example dtype='float32'), or leave requires_grad off."
                )
            self.node = Node("leaf", array.shape, array.dtype)

    @staticmethod
    def wrap(array: Array) -> Tensor:
        """Return a tensor over `array`, without a gradient."""
        return Tensor(array)

    @property
    def data(self) -> Array:
        """The array itself. Change it with ``tensor[...] = value``, so that the change is counted in the version."""
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
            self.node.stale = False
        return self.node.gradient

    @grad.setter
    def grad(self, value: Array | None) -> None:
        if self.node is None or not self.node.is_leaf:
            raise GraphError("only a leaf that requires a gradient has one to set")
        if value is not None and (value.shape, value.dtype) != (self.shape, self.dtype):
            raise ShapeError(
                f"a gradient of shape {value.shape} and dtype {value.dtype} does not fit a tensor of shape "
                f"{self.shape} and dtype {self.dtype}"
            )
        self.node.gradient, self.node.stale = value, False

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor or through it."""
        return self.node is not None

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

        `gradient` (same shape) is the derivative of the loss by this tensor; a tensor with one element needs none. The
        graph is freed meanwhile, so a second call needs a second forward pass. Raises GraphError if the tensor was not
        computed from a leaf that requires a gradient, or if the graph was freed; ShapeError if `gradient` does not fit.
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
        array = np.asarray(gradient.data if isinstance(gradient, Tensor) else gradient, dtype=self.dtype)
        if array.shape != self.shape:
            raise ShapeError(f"backward() got a gradient of shape {array.shape} for a tensor of shape {self.shape}")
        run_backward(self.node, array)

    def discard_grad(self) -> None:
        """Treat the gradient of this leaf as zero without writing zeros: the next gradient overwrites it.

        If `grad` is read before that, the zeros are written then.
        """
        if self.node is not None and self.node.is_leaf:
            self.node.stale = self.node.gradient is not None

    def zero_grad(self) -> None:
        """Set the gradient of this leaf, if it has one, to zero in place."""
        if (gradient := self.grad) is not None:
            gradient[...] = 0

    def detach(self) -> Tensor:
        """Return a tensor over the same array that is not part of the graph."""
        other = Tensor(self._data)
        other.version = self.version
        return other

    def numpy(self) -> Array:
        """Return the array, which is not part of the graph."""
        return self._data

    def item(self) -> float | int | bool:
        """Return the only element as a Python number."""
        if self.size != 1:
            raise ShapeError(f"item() needs a tensor with one element; this one has shape {self.shape}")
        value: float | int | bool = self._data.item()
        return value

    def tolist(self) -> Any:
        """Return the elements as nested Python lists."""
        return self._data.tolist()

    def __setitem__(self, index: Any, value: ArrayLike | Tensor) -> None:
        if is_recording() and self.node is not None:
            raise GraphError(
                "a tensor that takes part in a gradient cannot be changed in place; do it inside `with no_grad():`"
            )
        self._data[unwrap(index)] = unwrap(value)
        self.version.count += 1

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        text = np.array2string(self._data, precision=4, threshold=20, prefix="Tensor(")
        return f"Tensor({text}, dtype={self.dtype}{', requires_grad=True' if self.requires_grad else ''})"

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())
