"""Find parameters that are adjacent in memory, so that one kernel call updates them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.typing import Array


@dataclass
class Segment:
    """Parameters that are adjacent in memory, their values and their gradients as flat arrays."""

    members: list[Tensor]
    data: Array
    gradient: Array


def segments(parameters: Sequence[Tensor]) -> list[Segment]:
    """Join parameters that are adjacent in memory; a parameter without a gradient gets a gradient of zeros.

    The parameters of an initialised model are one segment; parameters made one by one are one segment each.
    Raises InputError for a parameter that requires no gradient or is not contiguous.
    """
    found: list[Segment] = []
    distinct = list({id(parameter): parameter for parameter in parameters}.values())
    for parameter in distinct:
        if not parameter.requires_grad:
            raise InputError("an optimizer needs parameters that require a gradient")
        if not parameter.data.flags.c_contiguous:
            raise InputError(
                f"a parameter of shape {parameter.shape} is not contiguous, so it cannot be updated in place; "
                "make it from np.ascontiguousarray(...)"
            )
        if parameter.grad is None:
            parameter.grad = np.zeros(parameter.shape, parameter.dtype)
        elif not parameter.grad.flags.c_contiguous:
            parameter.grad = np.ascontiguousarray(parameter.grad)
    for parameter in sorted(distinct, key=_address):
        if found and (joined := _join(found[-1], parameter)) is not None:
            found[-1] = joined
        else:
            found.append(Segment([parameter], parameter.data.reshape(-1), _gradient(parameter).reshape(-1)))
    return found


def _address(parameter: Tensor) -> int:
    return int(parameter.data.ctypes.data)


def _gradient(parameter: Tensor) -> Array:
    assert parameter.grad is not None
    return parameter.grad


def _join(segment: Segment, parameter: Tensor) -> Segment | None:
    """Return the segment with one more parameter, or None if that is not adjacent."""
    data = _extend(segment.data, parameter.data)
    gradient = _extend(segment.gradient, _gradient(parameter))
    if data is None or gradient is None:
        return None
    return Segment([*segment.members, parameter], data, gradient)


def _extend(flat: Array, array: Array) -> Array | None:
    """Return the flat array together with `array` if that follows it in the same buffer, else None."""
    base = flat.base
    if not isinstance(base, np.ndarray) or base is not array.base or base.ndim != 1:
        return None
    start = (flat.ctypes.data - base.ctypes.data) // flat.itemsize
    if array.ctypes.data != flat.ctypes.data + flat.nbytes:
        return None
    joined: Array = base[start : start + flat.size + array.size]
    return joined
