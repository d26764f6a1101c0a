"""@op: the one way to define a differentiable operation.

An operation is written as one function on plain arrays that returns its result together with a nested function
`backward(dy)`, a few lines below the forward formula. `@op` does everything else: it takes the arrays out of the
tensors, wraps the result, and, if a gradient will be wanted, records a node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad import anomaly, profile
from minigrad.errors import InputError, ShapeError
from minigrad.graph import Array, Backward, Node, Version, is_recording
from minigrad.tensor import Tensor

OPS: dict[str, Callable[..., Tensor]] = {}
"""Every operation by name; the tests walk this table."""


def op(function: Callable[..., tuple[Array, Backward]]) -> Callable[..., Tensor]:
    """Make a differentiable operation of ``function(*arrays, **options) -> (result, backward)``.

    Positional arguments are tensors, arrays or numbers; keyword-only arguments are options. ``backward(dy)`` gets the
    gradient of the result and returns one gradient per positional argument, None where there is none. It must not
    name the result tensor (a reference cycle would keep the whole graph alive), write into `dy`, or care about
    broadcasting: gradients are summed back to each argument's shape in one place, `minigrad.graph`.

    Raises ShapeError if the arguments' shapes do not fit, InputError if float32 and float64 tensors are mixed.
    """
    name = function.__name__
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]

    @functools.wraps(function)
    def apply(*arguments: Any, **options: Any) -> Tensor:
        arrays = _lift(name, parameters, arguments)
        measuring = profile.running()
        try:
            if measuring is None:
                y, backward = function(*arrays, **options)
            else:
                with measuring.measure(name, "forward") as line:
                    y, backward = function(*arrays, **options)
        except InputError:
            raise
        except ValueError as error:
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise ShapeError(f"{name} cannot use arguments of shapes {shapes}: {error}") from error
        if anomaly.enabled():
            anomaly.check_forward(name, arrays, y)
        y = np.asarray(y)
        if y.dtype == np.float64 and all(array.dtype.kind != "f" for array in arrays):
            y = y.astype(np.float32)  # NumPy makes whole numbers float64, say in a mean; our own type is float32
        result = _wrap(name, arguments, arrays, y, backward)
        if measuring is not None:
            measuring.note_forward(line, arrays, options, y, _kept(backward), learns=result.node is not None)
        return result

    OPS[name] = apply
    return apply


_NEVER_LIFTED = ("ids", "targets", "condition")
"""Arguments of these names hold whole numbers or booleans; all others take the dtype of the tensors beside them."""


def _lift(name: str, parameters: tuple[str, ...], arguments: tuple[Any, ...]) -> list[Array]:
    """Take the arrays out of the arguments; numbers, plain arrays and whole numbers get the tensors' own dtype."""
    dtype: np.dtype[Any] | None = None
    for argument in arguments:
        if isinstance(argument, Tensor) and argument.dtype.kind == "f":
            if dtype is not None and argument.dtype != dtype:
                raise InputError(
                    f"{name} got tensors of dtype {dtype} and {argument.dtype}; convert one with .astype(...)"
                )
            dtype = argument.dtype
    if dtype is None and any(type(argument) is float for argument in arguments):
        dtype = np.dtype(np.float32)  # a Python number is no reason to leave float32
    arrays = []
    for position, argument in enumerate(arguments):
        array = argument.data if isinstance(argument, Tensor) else np.asarray(argument)
        if position >= len(parameters) or parameters[position] not in _NEVER_LIFTED:
            array = array if dtype is None else array.astype(dtype, copy=False)
        arrays.append(array)
    return arrays


def _wrap(name: str, arguments: tuple[Any, ...], arrays: list[Array], y: Array, backward: Backward) -> Tensor:
    """Make the result a tensor and, if a gradient can be asked of it, record how it came about."""
    result = Tensor(y)
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    if y.base is not None:  # a view (reshape, slice): a change in place must be seen by both
        for tensor in tensors:
            if np.may_share_memory(y, tensor.data):
                result.version = tensor.version
    if is_recording() and y.dtype.kind == "f" and any(tensor.node is not None for tensor in tensors):
        parents = tuple(a.node if isinstance(a, Tensor) else None for a in arguments)
        saved = _saved_versions(backward, [*tensors, result])
        result.node = Node(name, y.shape, y.dtype, parents, backward, saved)
    return result


def _saved_versions(backward: Backward, tensors: list[Tensor]) -> tuple[tuple[Version, int], ...]:
    """Note the version of every tensor whose array the backward function keeps."""
    kept = _kept(backward)
    return tuple(
        (tensor.version, tensor.version.count)
        for tensor in tensors
        if any(np.may_share_memory(array, tensor.data) for array in kept)
    )


def _kept(backward: Backward) -> list[Array]:
    """Return the arrays that the backward function keeps, by looking into its closure."""
    return [array for cell in backward.__closure__ or () for array in _arrays(cell.cell_contents)]


def _arrays(value: Any) -> list[Array]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, tuple | list):
        return [item for item in value if isinstance(item, np.ndarray)]
    return []
