"""Read a safetensors file: eight bytes with the length of a header, the header in JSON, then the arrays.

    {"lm_head.weight": {"dtype": "BF16", "shape": [4096, 96], "data_offsets": [0, 786432]}, ...}

It is read by hand because the library's NumPy side knows no bfloat16 and its errors do not name the file.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from minigrad.errors import InputError

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "?", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1",
}  # fmt: skip


Entry = tuple[str, list[int], int, int]  # dtype, shape, where the bytes begin and end


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a safetensors file by name; float16 and bfloat16 are widened to float32.

    Raises InputError, naming the file, if it is missing, cut short, or something else.
    """
    try:
        with path.open("rb") as file:
            header, start = _read_header(file, path)
            return {name: _read_array(file, path, name, start, entry) for name, entry in header.items()}
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def _read_header(file: BinaryIO, path: Path) -> tuple[dict[str, Entry], int]:
    size = os.fstat(file.fileno()).st_size
    start = 8 + int.from_bytes(file.read(8), "little")
    if start > size:
        raise InputError(f"{path} is cut short or not a safetensors file")
    try:
        header = json.loads(file.read(start - 8))
        header.pop("__metadata__", None)
        entries = {name: (at["dtype"], at["shape"], *at["data_offsets"]) for name, at in header.items()}
        promised = start + max((end for _, _, _, end in entries.values()), default=0)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a safetensors file: its header cannot be read") from error
    if promised != size:
        raise InputError(f"{path} is damaged: its header promises {promised:,} bytes, the file has {size:,}")
    return entries, start


def _read_array(file: BinaryIO, path: Path, name: str, start: int, entry: Entry) -> NDArray[Any]:
    dtype, shape, begin, end = entry
    if dtype not in _DTYPES:
        raise InputError(f"{path}: {name} is stored as {dtype}; convert it to F32 or BF16")
    if end - begin != math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize:
        raise InputError(f"{path} is damaged: the bytes of {name} do not match its shape {shape}")
    file.seek(start + begin)
    array = np.fromfile(file, _DTYPES[dtype], math.prod(shape)).reshape(shape)
    if dtype == "BF16":  # bfloat16 is the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if dtype == "F16" else array
