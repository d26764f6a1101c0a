"""The arguments of an operation: which ones it accepts, and their common dtype, float32 or float64.

The float tensors among the arguments decide, and everything else is converted to their dtype: a number or an array
that is mixed with a float32 tensor leaves it float32. Without a float tensor, float arrays decide, then Python floats,
which are float32. If all arguments are integers or booleans, the operation decides what it does with them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from minigrad.autograd.operators import Operators, tensors_in
from minigrad.errors import InputError
from minigrad.typing import Array

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def native(array: Array) -> Array:
    """Return the array in the byte order of this machine, which kernels and `==` of dtypes need; copies if it must."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def from_python(data: Any, dtype: DTypeLike | None = None) -> Array:
    """Return Python numbers, or nested lists of them, as an array; raises InputError if they do not form one."""
    try:
        array = np.asarray(data, dtype)
        is_large = array.dtype == object and all(isinstance(each, int | float) for each in array.flat)
        return array.astype(np.float64) if is_large and dtype is None else array  # integers of more than 64 bits
    except InputError:
        if not isinstance(data, list | tuple):
            raise  # its error says why it cannot become an array
        raise InputError(
            "a Tensor of tensors that require a gradient would lose it; join them with ops.stack(a, b, ...) or "
            "ops.concatenate(a, b, ...)"
        ) from None
    except (ValueError, OverflowError) as error:
        raise InputError(f"a Tensor cannot be made of this data: {error}") from None


class Signature(NamedTuple):
    """The arguments that an operation takes (see `minigrad.autograd.op`)."""

    name: str
    positional: tuple[str, ...]  # the names of the positional arguments, without those of *arrays
    required: int  # the number of positional arguments without a default
    most: float  # the largest number of positional arguments
    options: tuple[str, ...]  # the names of the keyword-only arguments
    integers: tuple[str, ...]  # the arguments that are never converted
    integer_dtype: str | None  # the dtype to compute in if no argument is a float

    @classmethod
    def of(cls, function: Callable[..., Any], integers: tuple[str, ...], integer_dtype: str | None) -> Signature:
        """Return the signature of the function that an operation is made of."""
        parameters = inspect.signature(function).parameters.values()
        positional = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        return cls(
            function.__name__,
            tuple(each.name for each in positional),
            sum(each.default is each.empty for each in positional),
            math.inf if any(each.kind is each.VAR_POSITIONAL for each in parameters) else len(positional),
            tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY),
            integers,
            integer_dtype,
        )

    def accept(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """Check a call, and return its positional arguments without optional ones at the end that are None."""
        if (options and options.keys() - self.options) or len(arguments) > self.most:
            raise self._refusal(len(arguments), options.keys() - self.options)
        while self.required < len(arguments) <= len(self.positional) and arguments[-1] is None:
            arguments = arguments[:-1]
        return arguments

    def argument(self, position: int) -> str:
        """Return the name of an argument, for messages."""
        return self.positional[position] if position < len(self.positional) else f"argument {position}"

    def is_converted(self, position: int) -> bool:
        """Whether an argument is converted to the dtype of the others."""
        return position >= len(self.positional) or self.positional[position] not in self.integers

    def _refusal(self, count: int, unknown: set[str]) -> InputError:
        """Return the error for unknown options, or for too many positional arguments."""
        usual = {"dim": "axis", "keepdim": "keepdims"}
        if by_place := sorted(unknown.intersection(self.positional)):
            call = f"{self.name}({', '.join(self.positional)})"
            return InputError(f"{by_place[0]} of {self.name} is given by its place, not by its name: {call}")
        if unknown:
            wrong = (f"{each} (here it is {usual[each]})" if each in usual else each for each in sorted(unknown))
            known = f"its options are {', '.join(sorted(self.options))}" if self.options else "it has no options"
            return InputError(f"{self.name} has no option {', '.join(wrong)}; {known}")
        number, names = len(self.positional), ", ".join(self.positional)
        by_name = f"; options are given by name: {', '.join(f'{each}=...' for each in self.options)}"
        return InputError(
            f"{self.name} takes {number} argument{'s' * (number != 1)} ({names}), not {count}"
            f"{by_name if self.options else ''}"
        )


def lift(signature: Signature, arguments: Sequence[Any]) -> list[Array]:
    """Return the arguments as arrays of the dtype that the operation computes in.

    Raises InputError, naming operation, argument and dtype, if the float tensors differ in dtype, or if one of them is
    neither float32 nor float64 and the operation does not merely move elements.
    """
    dtype: np.dtype[Any] | None = None
    arrays: list[Array] = []
    fast = True  # while all arguments are float tensors of one dtype, no conversion is needed
    for argument in arguments:
        if not isinstance(argument, Operators):
            if isinstance(argument, list | tuple) and tensors_in(argument):
                raise InputError(
                    f"{signature.name} got a {type(argument).__name__} of tensors; give them one by one, as in "
                    f"{signature.name}(a, b), or join them first with ops.stack(a, b)"
                )
            arrays.append(native(from_python(argument)))
            if arrays[-1].dtype.kind not in "fiub":
                raise InputError(
                    f"{signature.name} got {signature.argument(len(arrays) - 1)} of type {type(argument).__name__}; it "
                    "takes tensors, arrays and numbers"
                )
            fast = False
            continue
        array = argument.data
        if array.dtype.kind != "f" or not signature.is_converted(len(arrays)):  # a condition, say, decides nothing
            fast = False
        elif dtype is None:
            dtype = array.dtype
        elif array.dtype != dtype:
            raise _mixed(signature, arguments)
        arrays.append(array)
    if fast and dtype in _FLOATS:
        return arrays
    if dtype is None:
        dtype = _dtype_without_tensors(signature, arguments, arrays)
    if signature.integer_dtype != "any":
        _check(signature, arrays, dtype)
    if dtype is not None:
        for position, array in enumerate(arrays):
            if signature.is_converted(position):
                arrays[position] = array.astype(dtype, copy=False)
    return arrays


def _dtype_without_tensors(
    signature: Signature, arguments: Sequence[Any], arrays: Sequence[Array]
) -> np.dtype[Any] | None:
    """Return the dtype to compute in if no tensor is a float; None leaves every argument as it is."""
    converted = [position for position in range(len(arrays)) if signature.is_converted(position)]
    floats = [position for position in converted if arrays[position].dtype.kind == "f"]
    of_arrays = [
        arrays[position].dtype for position in floats if isinstance(arguments[position], np.ndarray | np.generic)
    ]
    if of_arrays:
        return np.result_type(*of_arrays)
    if floats:
        return np.dtype(np.float32)  # Python's floats are float32, as in Tensor(1.0) and Tensor([1.0])
    return None if signature.integer_dtype in ("any", None) else np.dtype(signature.integer_dtype)


def _check(signature: Signature, arrays: Sequence[Array], dtype: np.dtype[Any] | None) -> None:
    """Raise InputError if the operation cannot compute in `dtype`, or would wrap large integers around."""
    for position, array in enumerate(arrays):
        if not signature.is_converted(position):
            continue
        is_bad = dtype is None if array.dtype.kind != "f" else array.dtype == dtype and dtype not in _FLOATS
        if is_bad or (array.dtype == np.uint64 and dtype == np.int64):
            wanted = "int64" if dtype == np.int64 else "float32"
            computes = "int64" if dtype == np.int64 else "float32 or float64"
            raise InputError(
                f"{signature.name} got {signature.argument(position)} of dtype {array.dtype}, but it computes in "
                f"{computes}; convert it, for example with .astype('{wanted}')"
            )


def _mixed(signature: Signature, arguments: Sequence[Any]) -> InputError:
    """Return the error of float tensors of different dtypes; its message names two of them."""
    floats = [
        (signature.argument(position), argument.data.dtype)
        for position, argument in enumerate(arguments)
        if isinstance(argument, Operators) and argument.data.dtype.kind == "f" and signature.is_converted(position)
    ]
    first, dtype = floats[0]
    second, other = next(pair for pair in floats if pair[1] != dtype)
    return InputError(
        f"{signature.name} got tensors of dtype {dtype} and {other}: {first} is {dtype}, {second} is {other}. Make "
        "them alike: use .astype('float32') on the tensor, or Tensor(array, dtype='float32') where the data is loaded. "
        "(NumPy's arrays are float64 by default; parameters are float32, or what `Module.initialise` was given.)"
    )
