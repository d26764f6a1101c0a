"""@op: the decorator that turns a function on plain arrays into a differentiable operation.

The function computes its result, and defines `backward(dy)` a few lines below the forward formula. `@op` takes the
arrays out of the tensors, wraps the result in a tensor, and records a node if an argument requires a gradient.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from minigrad.autograd import observers
from minigrad.autograd.dtypes import Signature, lift
from minigrad.autograd.gradients import Backward, may_share_memory, saved_versions
from minigrad.autograd.graph import Node, is_recording
from minigrad.autograd.operators import OPS
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.typing import Array

__all__ = ["gradients_wanted", "op"]

Forward = Callable[..., tuple[Array, Backward]]
Operation = Callable[..., Tensor]

_FLOAT32 = np.dtype(np.float32)  # in this machine's byte order; NumPy has one object for it


@overload
def op(function: Forward, /) -> Operation: ...
@overload
def op(*, integers: tuple[str, ...] = (), integer_dtype: str | None = None) -> Callable[[Forward], Operation]: ...
def op(
    function: Forward | None = None, /, *, integers: tuple[str, ...] = (), integer_dtype: str | None = None
) -> Operation | Callable[[Forward], Operation]:
    """Turn ``function(*arrays, **options) -> (result, backward)`` into a differentiable operation.

    Positional arguments are tensors, arrays or numbers; those at the end may have the default None and be omitted.
    Keyword-only arguments are options. ``backward(dy)`` receives the gradient of the result and returns one gradient
    per positional argument, or None for an argument that has no gradient or was omitted. It must not refer to the
    result tensor (a reference cycle would keep the whole graph alive) or write into `dy`. It need not undo
    broadcasting: `minigrad.autograd.graph` sums every gradient over the axes along which its argument was broadcast.

    `integers` names the arguments that hold indices or conditions, which are never converted. `integer_dtype` is the
    dtype to compute in without any float argument: "float32", "int64", or "any" if elements only move; None refuses
    integers.

    Raises InputError for a name that an operation of minigrad has already. The operation raises InputError for dtypes
    and options that it cannot use. An error of NumPy inside `function` gets a note with its name and the shapes.
    """
    if function is None:
        return functools.partial(_operation, integers=integers, integer_dtype=integer_dtype)
    return _operation(function, integers, integer_dtype)


def _operation(function: Forward, integers: tuple[str, ...], integer_dtype: str | None) -> Operation:
    name, signature = function.__name__, Signature.of(function, integers, integer_dtype)
    other, module = OPS[name].__module__ if name in OPS else function.__module__, function.__module__
    if other != module and "minigrad" in (other.split(".")[0], module.split(".")[0]):
        raise InputError(
            f"an operation named {name} is in {other} already, and the operators of Tensor find operations by their "
            f"names; give the one in {module} another name, such as own_{name}"
        )

    @functools.wraps(function)
    def apply(*arguments: Any, **options: Any) -> Tensor:
        arguments = signature.accept(arguments, options)
        if observers.active and (result := observers.replaced(apply, arguments, options)) is not None:
            return result
        arrays = lift(signature, arguments)
        parents = _parents(arguments, len(signature.positional))
        around, _call.parents = _call.parents, parents
        try:
            y, backward = _forward(name, function, arrays, options)
        finally:
            _call.parents = around  # a reference to the nodes would keep the graph alive
        return _result(name, arguments, parents, y if type(y) is np.ndarray else np.asarray(y), backward)

    OPS[name] = apply
    return apply


def _parents(arguments: tuple[Any, ...], count: int) -> tuple[Node | None, ...]:
    """Return the nodes of `count` or more arguments; None for one that needs no gradient or was omitted."""
    nodes = [each.node if isinstance(each, Tensor) else None for each in arguments] if is_recording() else []
    return tuple(nodes) + (None,) * (max(count, len(arguments)) - len(nodes))


class _Call(threading.local):
    parents: tuple[Node | None, ...] = ()  # of the operation that this thread is in


_call = _Call()


def gradients_wanted() -> tuple[bool, ...]:
    """Return, inside an operation, which of its positional arguments need a gradient.

    An operation that computes gradients already in the forward pass computes only these.
    """
    return tuple([parent is not None for parent in _call.parents])


def _forward(name: str, function: Forward, arrays: list[Array], options: dict[str, Any]) -> tuple[Array, Backward]:
    """Call a forward function, surrounded by the observers; an error of NumPy gets a note."""
    try:
        if not observers.active:
            return _checked(name, function(*arrays, **options))
        with observers.surround(lambda observer: observer.forward(name, arrays, options)) as observed:
            return observed(_checked(name, function(*arrays, **options)))
    except InputError:
        raise
    except (ValueError, TypeError, IndexError) as error:
        shapes = ", ".join(str(array.shape) for array in arrays)
        error.add_note(f"This happened in the operation {name}, called with arguments of shapes {shapes}.")
        raise


def _checked(name: str, returned: Any) -> tuple[Array, Backward]:
    """Return a forward function's result and backward function; raises TypeError if it returned anything else."""
    if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[1])):
        raise TypeError(
            f"an @op returns its result and its backward function, but {name} returned {type(returned).__name__}; "
            "end it with `return y, backward`"
        )
    return returned


def _result(
    name: str, arguments: tuple[Any, ...], parents: tuple[Node | None, ...], y: Array, backward: Backward
) -> Tensor:
    """Make the result a tensor and, if an argument requires a gradient, record its node."""
    result = Tensor.wrap(y) if y.dtype is _FLOAT32 else Tensor(y)  # float32, the usual case, needs no check
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    # A view (reshape, slice), or the argument itself, shares the version of the memory that it shares.
    if y.base is not None or any(y is tensor.data for tensor in tensors):
        for tensor in tensors:
            if may_share_memory(y, tensor.data):
                result.version = tensor.version
    if any(parents) and y.dtype.kind == "f":
        saved = saved_versions(backward, [*tensors, result])
        result.node = Node(name, y.shape, y.dtype, parents, backward, saved)
    return result
