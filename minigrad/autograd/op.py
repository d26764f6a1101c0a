"""@op: the decorator that makes a differentiable operation of a function on plain arrays.

The function returns its result and a nested function `backward(dy)`, which stands a few lines below the forward
formula. `@op` takes the arrays out of the tensors, wraps the result in a tensor, and records a node if an argument
requires a gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.autograd import observers
from minigrad.autograd.gradients import Backward, saved_arrays
from minigrad.autograd.graph import Node, Version, is_recording
from minigrad.autograd.operators import OPS
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.typing import Array

__all__ = ["OPS", "op"]


def op(function: Callable[..., tuple[Array, Backward]]) -> Callable[..., Tensor]:
    """Make a differentiable operation of ``function(*arrays, **options) -> (result, backward)``.

    Positional arguments are tensors, arrays or numbers; keyword-only arguments are options. ``backward(dy)`` receives
    the gradient of the result and returns one gradient per positional argument, None where there is none. It must not
    refer to the result tensor (a reference cycle would keep the whole graph alive) or write into `dy`. It need not undo
    broadcasting: `minigrad.autograd.graph` sums every gradient over the axes along which its argument was broadcast.

    Raises ShapeError if the arguments' shapes do not fit, InputError if float32 and float64 tensors are mixed.
    """
    name = function.__name__
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]

    @functools.wraps(function)
    def apply(*arguments: Any, **options: Any) -> Tensor:
        arrays = _lift(name, parameters, arguments)
        try:
            if not observers.active:
                y, backward = function(*arrays, **options)
            else:
                with observers.forward(name, arrays, options) as observed:
                    y, backward = observed(function(*arrays, **options))
        except InputError:
            raise
        except ValueError as error:
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise ShapeError(f"{name} cannot use arguments of shapes {shapes}: {error}") from error
        y = np.asarray(y)
        if y.dtype == np.float64 and all(array.dtype.kind != "f" for array in arrays):
            y = y.astype(np.float32)  # NumPy computes float64 from integers, as in a mean; here that is float32
        return _wrap(name, arguments, y, backward)

    OPS[name] = apply
    return apply


_NEVER_LIFTED = ("ids", "targets", "condition")
"""Arguments of these names hold integers or booleans; all others are converted to the dtype of the tensors."""


def _lift(name: str, parameters: tuple[str, ...], arguments: tuple[Any, ...]) -> list[Array]:
    """Return the arguments as arrays; Python numbers, plain arrays and integers get the dtype of the float tensors."""
    dtype: np.dtype[Any] | None = None
    arrays: list[Array] = []
    fast = True  # while all arguments are float tensors, no conversion is needed
    for argument in arguments:
        if not isinstance(argument, Tensor):
            arrays.append(np.asarray(argument))
            fast = False
            continue
        array = argument.data
        arrays.append(array)
        if array.dtype.kind != "f":
            fast = False
        elif dtype is None:
            dtype = array.dtype
        elif array.dtype != dtype:
            raise InputError(f"{name} got tensors of dtype {dtype} and {array.dtype}; convert one with .astype(...)")
    if fast:
        return arrays
    if dtype is None and any(type(argument) is float for argument in arguments):
        dtype = np.dtype(np.float32)  # a Python float is float32, as in Tensor(1.0)
    for position, array in enumerate(arrays):
        if dtype is not None and (position >= len(parameters) or parameters[position] not in _NEVER_LIFTED):
            arrays[position] = array.astype(dtype, copy=False)
    return arrays


def _wrap(name: str, arguments: tuple[Any, ...], y: Array, backward: Backward) -> Tensor:
    """Make the result a tensor and, if an argument requires a gradient, record its node."""
    result = Tensor(y)
    if y.base is not None:  # a view (reshape, slice) shares the version of the memory that it shares
        for argument in arguments:
            if isinstance(argument, Tensor) and _may_share_memory(y, argument.data):
                result.version = argument.version
    if is_recording() and y.dtype.kind == "f":
        parents = tuple([argument.node if isinstance(argument, Tensor) else None for argument in arguments])
        if any(parents):
            saved = _saved_versions(backward, (*arguments, result))
            result.node = Node(name, y.shape, y.dtype, parents, backward, saved)
    return result


def _saved_versions(backward: Backward, values: tuple[Any, ...]) -> tuple[tuple[Version, int], ...]:
    """Return the version, and its count, of every tensor whose array the backward function saves."""
    arrays, saved = saved_arrays(backward), []
    for value in values:
        if isinstance(value, Tensor):
            for array in arrays:
                if _may_share_memory(array, value.data):
                    saved.append((value.version, value.version.count))
                    break
    return tuple(saved)


def _may_share_memory(a: Array, b: Array) -> bool:
    """Return whether a change of one array may change the other.

    Two arrays that own their memory do not share it, nor do views of two such arrays; NumPy decides all other cases.
    """
    owner, other = a if a.base is None else a.base, b if b.base is None else b.base
    if owner is not other and type(owner) is type(other) is np.ndarray and owner.base is None and other.base is None:
        return False
    return np.may_share_memory(a, b)
