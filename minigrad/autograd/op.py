"""@op: the decorator that makes a differentiable operation of a function on plain arrays.

The function returns its result and a nested function `backward(dy)`, which stands a few lines below the forward
formula. `@op` takes the arrays out of the tensors, wraps the result in a tensor, and records a node if an argument
requires a gradient. `minigrad.autograd.dtypes` decides in which dtype it computes.
"""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from minigrad.autograd import observers
from minigrad.autograd.dtypes import Signature, lift
from minigrad.autograd.gradients import Backward, saved_arrays
from minigrad.autograd.graph import Node, Version, is_recording
from minigrad.autograd.operators import OPS
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.typing import Array

__all__ = ["OPS", "gradients_wanted", "op"]

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
    """Make a differentiable operation of ``function(*arrays, **options) -> (result, backward)``.

    Positional arguments are tensors, arrays or numbers; the last ones may have the default None and be left out.
    Keyword-only arguments are options. ``backward(dy)`` receives the gradient of the result and returns one gradient
    per positional argument, None where there is none, also for one that was left out. It must not
    refer to the result tensor (a reference cycle would keep the whole graph alive) or write into `dy`. It need not undo
    broadcasting: `minigrad.autograd.graph` sums every gradient over the axes along which its argument was broadcast.

    An operation computes in float32 or float64. `integers` names the arguments that hold indices or conditions, which
    are never converted. `integer_dtype` is the dtype that an operation without any float argument computes in:
    "float32", "int64", or "any" if it only moves elements, so that their dtype does not matter; None refuses integers.

    Raises InputError for a name that an operation of minigrad has already, and, when the operation is called, for
    dtypes that it cannot use, options that it does not have, and options that are given without their names. An error
    that NumPy raises inside `function` gets a note with the name of the operation and the shapes of its arguments.
    """
    if function is None:
        return functools.partial(_operation, integers=integers, integer_dtype=integer_dtype)
    return _operation(function, integers, integer_dtype)


def _operation(function: Forward, integers: tuple[str, ...], integer_dtype: str | None) -> Operation:
    name = function.__name__
    _check_name(name, function.__module__)
    given = inspect.signature(function).parameters.values()
    positional = [each for each in given if each.kind is each.POSITIONAL_OR_KEYWORD]
    required = sum(each.default is each.empty for each in positional)
    has_optional = required < len(positional)
    most = math.inf if any(each.kind is each.VAR_POSITIONAL for each in given) else len(positional)
    in_order = [each.name for each in given if each.kind is each.KEYWORD_ONLY]
    options_of = set(in_order)
    signature = Signature(name, tuple(each.name for each in positional), integers, integer_dtype)

    @functools.wraps(function)
    def apply(*arguments: Any, **options: Any) -> Tensor:
        if options and not options.keys() <= options_of:
            raise _unknown_option(name, options.keys() - options_of, options_of)
        if len(arguments) > most:
            raise _too_many(signature, len(arguments), in_order)
        while has_optional and len(arguments) > required and arguments[-1] is None:
            arguments = arguments[:-1]
        arrays = lift(signature, arguments)
        parents: tuple[Node | None, ...] = (None,) * len(arguments)
        if is_recording():
            parents = tuple([argument.node if isinstance(argument, Tensor) else None for argument in arguments])
        if has_optional:
            parents += (None,) * (len(positional) - len(arguments))
        _call.parents = parents
        try:
            if not observers.active:
                y, backward = _checked(name, function(*arrays, **options))
            else:
                with observers.forward(name, arrays, options) as observed:
                    y, backward = observed(_checked(name, function(*arrays, **options)))
        except InputError:
            raise
        except (ValueError, TypeError, IndexError) as error:
            shapes = ", ".join(str(array.shape) for array in arrays)
            error.add_note(f"This happened in the operation {name}, called with arguments of shapes {shapes}.")
            raise
        return _wrap(name, arguments, parents, y if type(y) is np.ndarray else np.asarray(y), backward)

    OPS[name] = apply
    return apply


def _check_name(name: str, module: str) -> None:
    """Raise InputError if an operation of minigrad has this name: `a + b` and `x.tanh()` find theirs by its name."""
    other = OPS[name].__module__ if name in OPS else module
    if other != module and "minigrad" in (other.split(".")[0], module.split(".")[0]):
        raise InputError(
            f"an operation named {name} is in {other} already, and the operators of Tensor find operations by their "
            f"names; give the one in {module} another name, such as own_{name}"
        )


class _Call(threading.local):
    parents: tuple[Node | None, ...] = ()


_call = _Call()


def gradients_wanted() -> tuple[bool, ...]:
    """Return, inside an operation, which of its positional arguments need a gradient.

    An operation that computes gradients already in the forward pass computes only these.
    """
    return tuple([parent is not None for parent in _call.parents])


def _checked(name: str, returned: Any) -> tuple[Array, Backward]:
    """Return what a forward function returned; raises TypeError if it is not a result and a backward function."""
    if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[1])):
        raise TypeError(
            f"an @op returns its result and its backward function, but {name} returned {type(returned).__name__}; "
            "end it with `return y, backward`"
        )
    return returned


def _unknown_option(name: str, unknown: set[str], options: set[str]) -> InputError:
    usual = {"dim": "axis", "keepdim": "keepdims"}
    names = ", ".join(f"{name} (here it is {usual[name]})" if name in usual else name for name in sorted(unknown))
    known = f"its options are {', '.join(sorted(options))}" if options else "it has no options"
    return InputError(f"{name} has no option {names}; {known}")


def _too_many(signature: Signature, count: int, options: list[str]) -> InputError:
    names = ", ".join(signature.positional)
    by_name = f"; options are given by name: {', '.join(f'{each}=...' for each in options)}" if options else ""
    arguments = "argument" if len(signature.positional) == 1 else "arguments"
    return InputError(f"{signature.name} takes {len(signature.positional)} {arguments} ({names}), not {count}{by_name}")


def _wrap(
    name: str, arguments: tuple[Any, ...], parents: tuple[Node | None, ...], y: Array, backward: Backward
) -> Tensor:
    """Make the result a tensor and, if an argument requires a gradient, record its node."""
    result = Tensor.wrap(y) if y.dtype is _FLOAT32 else Tensor(y)  # float32, the usual case, needs no check
    if y.base is not None:  # a view (reshape, slice) shares the version of the memory that it shares
        for argument in arguments:
            if isinstance(argument, Tensor) and _may_share_memory(y, argument.data):
                result.version = argument.version
    if any(parents) and y.dtype.kind == "f":
        saved = _saved_versions(backward, (*arguments, result))
        result.node = Node(name, y.shape, y.dtype, parents, backward, saved)
    return result


def _saved_versions(backward: Backward, values: tuple[Any, ...]) -> tuple[tuple[Version, int], ...]:
    """Return the version, and its count, of every tensor whose array the backward function saves."""
    arrays, saved = saved_arrays(backward), []
    if not arrays:
        return ()
    for value in values:
        if isinstance(value, Tensor):
            data = value.data
            for array in arrays:
                if array is data or _may_share_memory(array, data):
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
