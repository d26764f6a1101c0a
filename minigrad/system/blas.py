"""The BLAS library behind NumPy's matrix products: each product is computed in the thread that calls it.

`minigrad.kernels.gemm.backend` cuts large products into parts for the threads of `minigrad.kernels.threads`. Threads of
the library would be a second pool: waking them costs several times a small product, and while idle they spin and keep a
processor from the next kernel.

A loaded library changes its threads by a call. OpenBLAS has one for the whole process; Accelerate, since macOS 15, one
for the calling thread. MKL, and older versions of Accelerate, read an environment variable when they are loaded.
PyTorch reads it too, so it keeps the number of all threads.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The environment variables that BLAS libraries read when they are loaded.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
_ACCELERATE = "/System/Library/Frameworks/Accelerate.framework/Accelerate"
_MAPS = Path("/proc/self/maps")  # where Linux lists the libraries a process has loaded


def set_environment(count: int) -> bool:
    """Set the variables for libraries loaded later: OpenBLAS 1, others `count`; return whether the others changed."""
    os.environ[THREAD_VARIABLES[0]] = "1"
    before = {os.environ.get(variable) for variable in THREAD_VARIABLES[1:]}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES[1:], str(count)))
    return before != {str(count)}


def use_one_thread() -> bool:
    """Let NumPy's BLAS compute in the thread that calls it, Accelerate in this one; return whether that can be set."""
    for setter in _setters():
        setter(ctypes.c_int(1))
    return bool(_setters())


def can_use_one_thread() -> bool:
    """Return whether NumPy's BLAS, if it is loaded, computes a product in the thread that calls it."""
    return "numpy" in sys.modules and bool(_setters())


@functools.cache
def openblas_core() -> str:
    """Return the core whose kernels OpenBLAS uses ("SkylakeX"); "" if BLAS is another library.

    OpenBLAS chooses it on loading by the processor's model, or by its features if the model is newer than the library:
    a Zen 5 gets the AVX-512 kernels of SkylakeX. OPENBLAS_CORETYPE overrides the choice.
    """
    for function in _openblas_functions("get_corename"):
        function.restype = ctypes.c_char_p
        return bytes(function()).decode("ascii", "replace")
    return ""


@functools.cache
def _setters() -> list[Callable[[ctypes.c_int], object]]:
    accelerate = _accelerate_setter()
    return _openblas_functions("set_num_threads") + ([accelerate] if accelerate else [])


def _openblas_functions(name: str) -> list[Any]:
    """Return the function of every loaded OpenBLAS; NumPy's wheels add a prefix and a suffix to its name."""
    names = [f"{prefix}openblas_{name}{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]
    found = [[getattr(library, each) for each in names if hasattr(library, each)] for library in _loaded_openblas()]
    return [functions[0] for functions in found if functions]


@functools.cache
def _accelerate_setter() -> Callable[[ctypes.c_int], object] | None:
    if sys.platform != "darwin":
        return None
    try:
        function = ctypes.CDLL(_ACCELERATE).BLASSetThreading
    except (OSError, AttributeError):  # before macOS 15
        return None
    return lambda count: function(ctypes.c_uint(count.value))  # 1: one thread, 0: as many as it was loaded with


def _loaded_openblas() -> list[ctypes.CDLL]:
    if _MAPS.exists():
        # address, permissions, offset, device, inode, and then the path, which may hold spaces
        maps = _MAPS.read_text(encoding="utf-8", errors="surrogateescape")
        lines = [line.split(maxsplit=5) for line in maps.splitlines()]
        found = sorted({Path(fields[5]) for fields in lines if len(fields) == 6 and "openblas" in fields[5]})
    else:
        home = Path(sys.modules["numpy"].__file__ or "").parent
        found = [*home.glob(".dylibs/*openblas*"), *home.parent.glob("numpy.libs/*openblas*")]
    return [ctypes.CDLL(str(path)) for path in found if path.exists()]
