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
        result = _wrap(name, arguments, y, backward)
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
    arrays: list[Array] = []
    fitting = True  # while all arguments are tensors of floating-point numbers, which mostly is so: nothing to convert
    for argument in arguments:
        if not isinstance(argument, Tensor):
            arrays.append(np.asarray(argument))
            fitting = False
            continue
        array = argument.data
        arrays.append(array)
        if array.dtype.kind != "f":
            fitting = False
        elif dtype is None:
            dtype = array.dtype
        elif array.dtype != dtype:
            raise InputError(f"{name} got tensors of dtype {dtype} and {array.dtype}; convert one with .astype(...)")
    if fitting:
        return arrays
    if dtype is None and any(type(argument) is float for argument in arguments):
        dtype = np.dtype(np.float32)  # a Python number is no reason to leave float32
    for position, array in enumerate(arrays):
        if dtype is not None and (position >= len(parameters) or parameters[position] not in _NEVER_LIFTED):
            arrays[position] = array.astype(dtype, copy=False)
    return arrays


def _wrap(name: str, arguments: tuple[Any, ...], y: Array, backward: Backward) -> Tensor:
    """Make the result a tensor and, if a gradient can be asked of it, record how it came about."""
    result = Tensor(y)
    if y.base is not None:  # a view (reshape, slice): a change in place must be seen by both
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
    """Note the version of every tensor whose array the backward function keeps."""
    kept, saved = _kept(backward), []
    for value in values:
        if isinstance(value, Tensor):
            for array in kept:
                if _may_share_memory(array, value.data):
                    saved.append((value.version, value.version.count))
                    break
    return tuple(saved)


def _may_share_memory(a: Array, b: Array) -> bool:
    """Tell whether a change of one array may show in the other.

    Two arrays that both own their memory cannot share it, nor can views of two such arrays: NumPy need not be asked.
    """
    owner, other = a if a.base is None else a.base, b if b.base is None else b.base
    if owner is not other and type(owner) is type(other) is np.ndarray and owner.base is None and other.base is None:
        return False
    return np.may_share_memory(a, b)


def _kept(backward: Backward) -> list[Array]:
    """Return the arrays that the backward function keeps, by looking into its closure."""
    kept: list[Array] = []
    for cell in backward.__closure__ or ():
        content = cell.cell_contents
        if isinstance(content, np.ndarray):
            kept.append(content)
        elif isinstance(content, (tuple, list)):
            kept += [item for item in content if isinstance(item, np.ndarray)]
    return kept
