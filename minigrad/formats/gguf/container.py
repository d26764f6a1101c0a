"""The layout of a GGUF file, version 3, and the types of its arrays.

    "GGUF"  version  number of tensors  number of metadata values
    key  type  value                      for each value
    name  dimensions  type  offset        for each tensor
    zeros up to a multiple of 32          and again after each tensor

All numbers are little-endian. A string is its length in bytes (8 bytes) and its UTF-8. The dimensions of a tensor are
listed from the last to the first, as ggml counts them; its offset counts from the first tensor.

Arrays are stored in float32, float16, or eight bits in blocks of 32: a block of Q8_0 is one float16 and 32 whole
numbers of eight bits. Element i is d * q_i, where d is the largest magnitude of the block divided by 127. That is 34
bytes for 32 elements, 8.5 bits each.

Source: the specification of GGUF in the documentation of ggml; `quantize_row_q8_0_ref` in ggml.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from minigrad.errors import InputError
from minigrad.options import shown
from minigrad.typing import Array

BLOCK = 32  # elements of Q8_0; a row of an array is a whole number of blocks
ALIGNMENT = 32  # bytes; the offset of every tensor is a multiple of it
Value = bool | int | float | str | list[str] | list[int] | list[float]
"""A value of the metadata: int is stored as uint32 (in a list int32), float as float32."""
_STRING, _ARRAY = 8, 9
_NUMBERS = {bool: (7, "<?"), int: (4, "<I"), float: (6, "<f")}  # the code of a type, and how `struct` packs it
_ELEMENTS = {int: (5, "i"), float: (6, "f")}


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
        if not np.isfinite(array).all():
            raise InputError(f"{name} has elements that are not finite: the weights are damaged")
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
    # away from zero, where np.rint would take the even number. A scale below the normal numbers, which float16
    # rounds to zero and whose inverse may be infinite, makes a block of zeros.
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale >= np.finfo(np.float32).tiny)
    scaled = rows * inverse
    blocks = np.empty(len(rows), Q8_0_BLOCK)
    blocks["scale"] = scale[:, 0]
    blocks["elements"] = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    return blocks


STORAGES = {  # by the names of --type
    "f32": Storage(0, 1, 4, lambda elements: elements.astype("<f4")),
    "f16": Storage(1, 1, 2, lambda elements: elements.astype("<f2")),
    "q8_0": Storage(8, BLOCK, Q8_0_BLOCK.itemsize, q8_0),
}


class StoredTensor(NamedTuple):
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


def write(file: IO[bytes], metadata: Mapping[str, Value], tensors: Mapping[str, StoredTensor]) -> None:
    """Write a GGUF file.

    Raises InputError for an array or a number that its type cannot hold, OSError if the disk is full.
    """
    header = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    header += [_string(key) + _typed(value, key) for key, value in metadata.items()]
    offset = 0
    for name, (array, storage) in tensors.items():
        dimensions = array.shape[::-1]
        sizes = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
        header.append(_string(name) + sizes + struct.pack("<IQ", STORAGES[storage].code, offset))
        size = STORAGES[storage].size(array.size)
        offset += size + len(_padding(size))
    content = b"".join(header)
    file.write(content + _padding(len(content)))
    for name, (array, storage) in tensors.items():
        content = STORAGES[storage].encode(array, name)
        file.write(content)
        file.write(_padding(len(content)))


def _padding(size: int) -> bytes:
    """Return the zeros after `size` bytes."""
    return bytes(-size % ALIGNMENT)


def _string(text: str) -> bytes:
    """Return the length of a text and its UTF-8; raises InputError for a lone surrogate, which has none."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise InputError(f"the text {shown(text)} has a lone surrogate, which a GGUF file cannot hold") from None
    return struct.pack("<Q", len(encoded)) + encoded


def _typed(value: Value, key: str) -> bytes:
    """Return the code of a value's type and the value; raises InputError for a number that its type cannot hold."""
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _string(value)
    if not isinstance(value, list):
        code, layout = _NUMBERS[type(value)]
        try:
            return struct.pack("<I", code) + struct.pack(layout, value)
        except (OverflowError, struct.error):
            raise InputError(f"{key} is {value!r}, which a GGUF file cannot hold") from None
    if not value or isinstance(value[0], str):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_string, map(str, value)))
    code, letter = _ELEMENTS[type(value[0])]
    return struct.pack(f"<IIQ{len(value)}{letter}", _ARRAY, code, len(value), *value)
