"""The layout of a GGUF file, version 3: a header, metadata, the list of tensors, then their bytes.

    "GGUF"  version  number of tensors  number of metadata values
    key  type  value                      for each value
    name  dimensions  type  offset        for each tensor
    zeros up to a multiple of 32          and again after each tensor

All numbers are little-endian. A string is its length in bytes (8 bytes) and its UTF-8. The dimensions of a tensor are
listed from the last to the first, as ggml counts them; its offset counts from the first tensor.

Source: the specification of GGUF in the documentation of ggml.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import IO

from minigrad.formats.gguf.storage import STORAGES, Stored

ALIGNMENT = 32  # bytes; the offset of every tensor is a multiple of it
Value = bool | int | float | str | list[str] | list[int] | list[float]
"""A value of the metadata: int is stored as uint32 (in a list int32), float as float32."""
_STRING, _ARRAY = 8, 9
_NUMBERS = {bool: (7, "<?"), int: (4, "<I"), float: (6, "<f")}  # the code of a type, and how `struct` packs it
_ELEMENTS = {int: (5, "i"), float: (6, "f")}


def write(file: IO[bytes], metadata: Mapping[str, Value], tensors: Mapping[str, Stored]) -> None:
    """Write a GGUF file; raises InputError for an array that its type cannot hold, OSError if the disk is full."""
    header = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    header += [_string(key) + _typed(value) for key, value in metadata.items()]
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
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _typed(value: Value) -> bytes:
    """Return the code of a value's type and the value."""
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _string(value)
    if not isinstance(value, list):
        code, layout = _NUMBERS[type(value)]
        return struct.pack("<I", code) + struct.pack(layout, value)
    if not value or isinstance(value[0], str):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_string, map(str, value)))
    code, letter = _ELEMENTS[type(value[0])]
    return struct.pack(f"<IIQ{len(value)}{letter}", _ARRAY, code, len(value), *value)
