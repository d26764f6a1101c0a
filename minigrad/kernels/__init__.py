"""@kernel: the one spelling of `numba.njit` for every hot loop, and where the compiled code is kept.

A kernel is a plain loop over a range of rows. Compiled, it releases Python's lock (`nogil`), is kept on disk (`cache`)
and divides as NumPy does (`error_model`). Only those fast-math flags are on that leave NaN and infinity meaningful,
because masks are written with -inf; `reassoc` lets sums use all the lanes of a vector register.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding
import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from minigrad.cache import cache_folder
from minigrad.errors import InputError
from minigrad.kernels.permission import may_use_tiles

Function = TypeVar("Function", bound=Callable[..., object])

__all__ = ["KERNELS", "exact", "host_features", "intrinsic", "kernel", "overload", "rows_of", "types"]

KERNELS: dict[str, Callable[..., object]] = {}
"""Every kernel by module and name; the tests walk this table."""

_EXACT = {"nsz", "arcp", "contract"}
_FAST = _EXACT | {"reassoc"}


def _code_folder() -> Path | None:
    """Return where compiled kernels are kept, or None if nothing can be written there.

    Numba notices an edit in a kernel's own file, but not in a function it calls from another file. So the folder is
    named by a hash of all kernel sources, of Numba's version, and of whether tile registers may be used, which Numba
    does not know.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = hashlib.blake2b(f"{numba.__version__} {may_use_tiles()}".encode(), digest_size=8)
    for source in sources:
        digest.update(source.read_bytes())
    folder = cache_folder() / "kernels" / digest.hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


_FOLDER = _code_folder()


def kernel(function: Function) -> Function:
    """Compile a loop with all the flags above."""
    return _compile(function, _FAST)


def exact(function: Function) -> Function:
    """Compile a small function whose operations must happen in the order written.

    The rounding trick of the exponential subtracts what was just added; `reassoc` would cancel the two.
    """
    return _compile(function, _EXACT)


def _compile(function: Function, flags: set[str]) -> Function:
    options: Any = numba.config
    before = options.CACHE_DIR
    options.CACHE_DIR = str(_FOLDER or "")
    try:
        compiled: Function = numba.njit(
            function, nogil=True, cache=_FOLDER is not None, error_model="numpy", fastmath=flags
        )
    finally:
        options.CACHE_DIR = before
    KERNELS[f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"] = compiled
    return compiled


def host_features() -> set[str]:
    """Return the names that LLVM has for what this processor can do, such as "avx512f", as Numba will use them."""
    options: Any = numba.config
    named = options.CPU_FEATURES
    if named is None:
        return {name for name, present in llvmlite.binding.get_host_cpu_features().items() if present}
    return {name[1:] for name in named.split(",") if name.startswith("+")}


def rows_of(x: NDArray[Any], width: int | None = None) -> NDArray[Any]:
    """Return `x` as contiguous, writable rows: shape (rows, `width`), by default the last axis; copies if it must.

    Numba compiles a kernel again for each layout and type it meets, so kernels are only ever given this layout, and
    float32 for work or float64 for checks. Raises InputError for any other type.
    """
    if x.dtype not in (np.float32, np.float64):
        raise InputError(f"this works on numbers of type float32 or float64, not {x.dtype}; use .astype('float32')")
    size = x.shape[-1] if width is None else width
    flat = np.ascontiguousarray(x).reshape(math.prod(x.shape) // size if size else 0, size)
    return flat if flat.flags.writeable else flat.copy()
