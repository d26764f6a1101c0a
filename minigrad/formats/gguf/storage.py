"""The types in which a GGUF file stores the elements of an array: float32, float16, and eight bits in blocks of 32.

A block of Q8_0 is one float16 and 32 whole numbers of eight bits: element i is d * q_i, where d is the largest
magnitude of the block divided by 127. That is 34 bytes for 32 elements, 8.5 bits each.

Source: `quantize_row_q8_0_ref` in ggml.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minigrad.errors import InputError
from minigrad.typing import Array

BLOCK = 32  # elements of Q8_0; a row of an array is a whole number of blocks


class Storage(NamedTuple):
    """A type of the elements of an array in a GGUF file."""

    code: int  # ggml's number of the type
    elements: int  # elements per block
    block_bytes: int
    convert: Callable[[Array], Any]  # from float32 elements (N,) to an array with the bytes of the file

    def size(self, elements: int) -> int:
        """Return the number of bytes of an array."""
        return elements // self.elements * self.block_bytes

    def encode(self, array: Array, name: str) -> bytes:
        """Return the bytes of an array; raises InputError, naming it, for an element that this type cannot hold."""
        with np.errstate(over="ignore", invalid="ignore"):
            converted = self.convert(np.ascontiguousarray(array, np.float32).reshape(-1))
        scales = converted["scale"] if converted.dtype.names else converted
        if not np.isfinite(scales).all():
            largest = np.abs(array).max()
            raise InputError(f"{name} has elements up to {largest:g}, which this type cannot hold; try --type f32")
        return bytes(converted.tobytes())


Q8_0_BLOCK = np.dtype([("scale", "<f2"), ("elements", "i1", BLOCK)])


def q8_0(elements: Array) -> Any:
    """Return float32 elements (N,), N a multiple of 32, as blocks (N/32,) of Q8_0.

    >>> block = q8_0(np.arange(32, dtype=np.float32))
    >>> block["scale"], block["elements"][0, :4], block["elements"][0, -1]
    (array([0.2441], dtype=float16), array([ 0,  4,  8, 12], dtype=int8), np.int8(127))
    """
    rows = elements.reshape(-1, BLOCK)
    scale = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
    # As in ggml, the elements are divided by the scale before its rounding to float16, and halves are rounded
    # away from zero, where np.rint would take the even number.
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    scaled = rows * inverse
    blocks = np.empty(len(rows), Q8_0_BLOCK)
    blocks["scale"] = scale[:, 0]
    blocks["elements"] = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    return blocks


STORAGES = {
    "f32": Storage(0, 1, 4, lambda elements: elements.astype("<f4")),
    "f16": Storage(1, 1, 2, lambda elements: elements.astype("<f2")),
    "q8_0": Storage(8, BLOCK, Q8_0_BLOCK.itemsize, q8_0),
}
"""The types by name; the names are also the values of --type."""


class Stored(NamedTuple):
    """An array and the name of the type in which a file stores it."""

    array: Array
    storage: str


def storage_for(name: str, array: Array, wanted: str) -> str:
    """Return the type in which llama.cpp's own programs store an array of this name, if `wanted` is that of most.

    Vectors and the table of positions are added or multiplied element by element, so they stay in float32; a matrix
    whose rows are not whole blocks is stored as float16 instead of Q8_0.
    """
    if array.ndim < 2 or name == "position_embd.weight":
        return "f32"
    return "f16" if wanted == "q8_0" and array.shape[-1] % BLOCK else wanted
