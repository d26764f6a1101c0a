"""Safetensors files: eight bytes with the length of a header, the header in JSON, then the arrays.

    {"lm_head.weight": {"dtype": "BF16", "shape": [4096, 96], "data_offsets": [0, 786432]}, ...}

The safetensors library reads, checks and writes them. NumPy has no bfloat16, so those arrays are read here:
the library lists names, types and shapes in the order of their bytes, and no byte lies between two arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from minigrad.errors import InputError, RunError
from minigrad.system.files import reason, replacing
from minigrad.typing import Array, PathLike

Arrays = Mapping[str, Array]

_ITEMSIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1}
_ITEMSIZES |= {"U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}


def read_tensors(path: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file by name; float16 and bfloat16 are widened to float32.

    Raises InputError, naming the file, if it is missing, damaged, or something else.
    """
    try:
        with safe_open(path, framework="np") as file:
            start, arrays = _header_size(path), {}
            for name in file.offset_keys():
                part = file.get_slice(name)
                dtype, shape = part.get_dtype(), part.get_shape()
                if dtype not in _ITEMSIZES:
                    raise InputError(f"{path}: {name} is stored as {dtype}; convert it to F32 or BF16")
                size = _ITEMSIZES[dtype] * math.prod(shape)
                arrays[name] = _read_bfloat16(path, start, shape) if dtype == "BF16" else file.get_tensor(name)
                if dtype == "F16":
                    arrays[name] = arrays[name].astype(np.float32)
                start += size
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from error
    except SafetensorError as error:
        raise InputError(f"{path} is damaged or not a safetensors file: {error}") from error
    return arrays


def _header_size(path: Path) -> int:
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def _read_bfloat16(path: Path, start: int, shape: list[int]) -> Array:
    halves = np.fromfile(path, "<u2", math.prod(shape), offset=start).reshape(shape)
    return (halves.astype(np.uint32) << 16).view(np.float32)  # bfloat16 is the upper half of a float32


def write_tensors(path: Path, arrays: Arrays, metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file in place; raises OSError if it cannot be written.

    The `metadata` of the file's header is {"format": "pt"} by default, without which transformers refuses it.
    """
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    path.touch()  # with the usual permissions of a new file: the library would make it unreadable to other users
    permissions = path.stat().st_mode
    try:
        save_file(contiguous, path, metadata=dict(metadata or {"format": "pt"}))
    except SafetensorError as error:
        raise OSError(str(error)) from error
    path.chmod(permissions)


def save_tensors(path: PathLike, arrays: Arrays, metadata: Mapping[str, str] | None = None) -> None:
    """Replace the safetensors file at `path`, completely or not at all; raises RunError if it cannot be written."""
    try:
        with replacing(Path(path)) as temporary:
            write_tensors(temporary, arrays, metadata)
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from error
