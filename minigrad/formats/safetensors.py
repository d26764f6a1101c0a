"""Safetensors files: eight bytes with the length of a header, the header in JSON, then the arrays.

    {"lm_head.weight": {"dtype": "BF16", "shape": [4096, 96], "data_offsets": [0, 786432]}, ...}

The safetensors library reads and checks them. NumPy has no bfloat16, so arrays of that type are read here: the library
lists names, types and shapes in the order of their bytes, without gaps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from minigrad.errors import InputError, RunError
from minigrad.options import shown
from minigrad.system.files import read_start, reason, replacing
from minigrad.system.units import format_bytes
from minigrad.typing import Array, Arrays, PathLike

_LARGEST_HEADER = 1 << 23  # bytes; the library takes 100 MB, and minutes for that


class DType(NamedTuple):
    """A type of a stored array."""

    size: int  # bytes per element in the file
    read: str  # NumPy's name of the type that reading gives


# The types of the format that NumPy can hold; half precision is widened.
DTYPES = {"F64": DType(8, "float64"), "F32": DType(4, "float32"), "BOOL": DType(1, "bool")}
DTYPES |= {f"I{8 * size}": DType(size, f"int{8 * size}") for size in (1, 2, 4, 8)}
DTYPES |= {f"U{8 * size}": DType(size, f"uint{8 * size}") for size in (1, 2, 4, 8)}
_NAMES = {each.read: name for name, each in DTYPES.items()} | {"float16": "F16"}  # in which arrays are written
DTYPES |= {"F16": DType(2, "float32"), "BF16": DType(2, "float32")}


class Header(NamedTuple):
    """The entry of one array in the header of a file."""

    dtype: str  # a key of DTYPES
    shape: tuple[int, ...]
    start: int  # the place of its first byte in the file

    def without_memory(self) -> Array:
        """Return an array of this shape, and of the type that reading gives, which takes no memory."""
        return np.broadcast_to(np.zeros((), DTYPES[self.dtype].read), self.shape)


def read_headers(path: Path) -> dict[str, Header]:
    """Return the type and shape of every array of a safetensors file by name; errors: as `read_tensors`."""
    with _opened(path) as file:
        headers, start = {}, 8 + int.from_bytes(read_start(path, 8), "little")
        for name, part in ((name, file.get_slice(name)) for name in file.offset_keys()):
            dtype, shape = part.get_dtype(), tuple(part.get_shape())
            if dtype not in DTYPES:
                raise InputError(f"{path}: {name} is stored as {dtype}; convert it to F32 or BF16")
            # Such sizes are possible beside a size of 0, and are larger than NumPy allows.
            if math.prod(size or 1 for size in shape) >= 2**60 or len(shape) > 32:
                raise InputError(f"{path}: {name} has the shape {shown(shape)}, which no array has")
            headers[name] = Header(dtype, shape, start)
            start += DTYPES[dtype].size * math.prod(shape)
    return headers


def read_tensors(path: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file by name; float16 and bfloat16 are widened to float32.

    Raises InputError, naming the file, if it is missing, damaged, or something else.
    """
    return dict(read_each(path))


def read_each(path: Path) -> Iterator[tuple[str, Array]]:
    """Yield the names and arrays of `read_tensors` one by one, so that not all need be in memory."""
    headers = read_headers(path)
    with _opened(path) as file:
        for name, (dtype, shape, start) in headers.items():
            if dtype == "BF16":
                halves = np.fromfile(path, "<u2", math.prod(shape), offset=start).reshape(shape)
                yield name, (halves.astype(np.uint32) << 16).view(np.float32)  # the upper half of a float32
            else:
                array = file.get_tensor(name)
                yield name, array.astype(np.float32) if dtype == "F16" else array


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        length = int.from_bytes(read_start(path, 8), "little")  # the library would wait for a pipe
        if length > _LARGEST_HEADER and length < path.stat().st_size:
            raise InputError(
                f"{path} is damaged or not a safetensors file: its header has {format_bytes(length)}, and one of "
                f"{format_bytes(_LARGEST_HEADER)} describes 100,000 arrays"
            )
        with safe_open(path, framework="np") as file:
            yield file
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from error
    except SafetensorError as error:
        raise InputError(f"{path} is damaged or not a safetensors file: {error}") from error


def write_tensors(path: Path, arrays: Arrays) -> None:
    """Write a safetensors file in place; raises OSError if it cannot be written, InputError for an unknown type.

    The metadata of the header is {"format": "pt"}, because transformers refuses a file without it. Other threads run
    meanwhile, and only arrays that are not contiguous are copied; the library would copy all, and stop the threads.
    """
    placed = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))  # so all are aligned
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, array in placed:
        if array.dtype.name not in _NAMES:
            raise InputError(f"{name} is of dtype {array.dtype}, which no safetensors file holds")
        stop = start + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype.name], "shape": array.shape, "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in placed:
            ordered = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            file.write(ordered.reshape(-1).view(np.uint8).data)


def save_tensors(path: PathLike, arrays: Arrays) -> None:
    """Replace the safetensors file at `path`, completely or not at all; raises RunError if it cannot be written."""
    try:
        with replacing(Path(path)) as temporary:
            write_tensors(temporary, arrays)
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from error
