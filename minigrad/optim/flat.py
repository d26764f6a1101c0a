"""Find parameters that are adjacent in memory, so that one kernel call updates them all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.typing import Array


@dataclass
class Segment:
    """Parameters that are adjacent in memory, their values and their gradients as flat arrays.

    The values of a gradient that was discarded are leftovers, which count as zero (see `Tensor.has_gradient`).
    """

    members: list[Tensor]
    data: Array
    gradient: Array

    def views(self, flat: Array) -> list[Array]:
        """Return the part of `flat`, an array like `data`, that belongs to each member, in its shape."""
        return [flat[place].reshape(member.shape) for member, place in zip(self.members, self.places(), strict=True)]

    def places(self) -> list[slice]:
        """Return the range of the flat arrays that belongs to each member."""
        stops = itertools.accumulate(member.size for member in self.members)
        return [slice(stop - member.size, stop) for member, stop in zip(self.members, stops, strict=True)]

    def spans(self) -> list[slice]:
        """Return the longest ranges of the flat arrays in which every member has a gradient."""
        found: list[slice] = []
        for member, place in zip(self.members, self.places(), strict=True):
            if member.has_gradient and found and found[-1].stop == place.start:
                found[-1] = slice(found[-1].start, place.stop)
            elif member.has_gradient:
                found.append(place)
        return found


def distinct_parameters(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Return every parameter once, in order; an iterator is read to its end."""
    return list({id(parameter): parameter for parameter in parameters}.values())


def segments(parameters: Iterable[Tensor]) -> list[Segment]:
    """Join parameters that are adjacent in memory; one that has no array for its gradient gets an array of zeros.

    The parameters of an initialised model are one segment; parameters made one by one are one segment each. Frozen
    parameters, which require no gradient, are left out. Raises InputError for a parameter that cannot be updated in
    place: one that is not contiguous, or read-only, or whose dtype is neither float32 nor float64.
    """
    found: list[Segment] = []
    trained = [parameter for parameter in distinct_parameters(parameters) if parameter.requires_grad]
    for parameter in trained:
        check_memory(parameter)
    for parameter in sorted(trained, key=_address):
        data, gradient = parameter.data, gradient_array(parameter)
        longer = (_extend(found[-1].data, data), _extend(found[-1].gradient, gradient)) if found else (None, None)
        if longer[0] is None or longer[1] is None:
            found.append(Segment([parameter], data.reshape(-1), gradient.reshape(-1)))
        else:
            found[-1] = Segment([*found[-1].members, parameter], longer[0], longer[1])
    return found


def check_apart(parameters: Iterable[Tensor]) -> None:
    """Raise InputError if two parameters share memory: an update of one would change the other as well."""
    ordered = sorted((parameter for parameter in parameters if parameter.size), key=_address)
    for one, other in itertools.pairwise(ordered):
        if _address(other) < _address(one) + one.data.nbytes:
            raise InputError(
                f"two parameters, of shapes {one.shape} and {other.shape}, share memory, so each update would count "
                "twice; use one tensor in both places, or copy the array of one"
            )


def gradient_array(parameter: Tensor) -> Array:
    """Return the array for the gradient, contiguous and writable; reading it here does not count as a gradient."""
    node = parameter.node
    assert node is not None
    if node.gradient is None:
        node.gradient, node.stale = np.zeros(parameter.shape, parameter.dtype), True
    elif not (node.gradient.flags.c_contiguous and node.gradient.flags.writeable):
        node.gradient = np.array(node.gradient, order="C")
    return node.gradient


def check_memory(parameter: Tensor) -> None:
    """Raise InputError for a parameter that cannot be updated in place (see `segments`)."""
    data = parameter.data
    if not data.flags.c_contiguous:
        raise InputError(
            f"a parameter of shape {parameter.shape} is not contiguous, so it cannot be updated in place; make it from "
            "np.ascontiguousarray(...), or, if it has only a shape so far, call initialise() on its model"
        )
    if not data.flags.writeable:
        raise InputError(
            f"a parameter of shape {parameter.shape} is read-only, so it cannot be updated in place; make it of a copy"
        )
    if data.dtype not in (np.float32, np.float64):
        raise InputError(f"a parameter of shape {parameter.shape} is {data.dtype}, not float32 or float64")


def _address(parameter: Tensor) -> int:
    return int(parameter.data.ctypes.data)


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
