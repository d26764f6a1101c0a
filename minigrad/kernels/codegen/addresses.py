"""Arrays at an address, so that one loop can read hundreds of weight matrices of several types.

Numba compiles a loop for the types of its arguments. A model's weights are many arrays, whose number differs from model
to model; as a table of addresses they have one type.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from minigrad.kernels.codegen.llvm import BYTE
from minigrad.kernels.jit import carray, emits, overload, types
from minigrad.typing import Array


def address_of(x: Array) -> int:
    """Return the address of the first element of a contiguous array, which the caller must keep alive."""
    assert x.flags.c_contiguous
    return int(x.ctypes.data)


def elements_at(address: int, size: int, kind: Any) -> Array:
    """Return the `size` elements of type `kind`, such as np.float32, that begin at an address.

    Nothing is copied, and nothing is checked: the caller is responsible for the memory there.
    """
    memory = (ctypes.c_char * (size * np.dtype(kind).itemsize)).from_address(int(address))
    return np.frombuffer(memory, kind)


# Numba lets only a function that counts references return an array. This one owns no memory, so nothing is counted or
# freed, and borrowing kernels may call it.
@overload(elements_at, makes_array=True)
def _elements_at(address, size, kind):  # type: ignore[no-untyped-def]
    return lambda address, size, kind: carray(_pointer(address), (size,), kind)


def _pointer(address: int) -> Any:
    """Return the pointer to an address; only kernels call this."""


@emits(_pointer, types.voidptr, types.int64)
def _emit_pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, BYTE.as_pointer())
