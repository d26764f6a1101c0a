"""The BLAS library behind NumPy's matrix products: it computes each product in the thread that asks for it.

Large products are cut into parts, and the threads of `minigrad.kernels.threads` share these
(`minigrad.kernels.gemm.backend`). Threads of the library's own would be a second pool beside that one. To wake them
costs several times the product where a model is small, idle they spin and keep a processor from the kernel that
follows, and replicas of a model, one in each thread, would share every product once more.

Only functions of the library set its threads once it is loaded. OpenBLAS has one, which counts for the whole process.
Apple's Accelerate, since macOS 15, has one that counts for the thread that calls it. Intel's MKL, and Accelerate
before, read an environment variable when they are loaded; other libraries read the same variable (PyTorch), so it is
left at the number of all threads, and such a library multiplies with threads of its own.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
"""The environment variables that BLAS libraries read when they are loaded."""

_ACCELERATE = "/System/Library/Frameworks/Accelerate.framework/Accelerate"
_MAPS = Path("/proc/self/maps")  # where Linux lists the libraries a process has loaded


def set_environment(count: int) -> bool:
    """Set the variables for a library that is loaded later: one thread for OpenBLAS, `count` for others.

    Return whether those of the others had another value before.
    """
    os.environ[THREAD_VARIABLES[0]] = "1"
    before = {os.environ.get(variable) for variable in THREAD_VARIABLES[1:]}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES[1:], str(count)))
    return before != {str(count)}


def use_one_thread() -> bool:
    """Let the BLAS that NumPy has loaded compute in the thread that calls it; return whether that can be set.

    Where that is a setting of each thread (Accelerate), it is made for the thread that calls this.
    """
    for setter in _setters():
        setter(ctypes.c_int(1))
    return bool(_setters())


def can_use_one_thread() -> bool:
    """Return whether the BLAS that NumPy has loaded computes a product in the thread that asks for it."""
    return "numpy" in sys.modules and bool(_setters())


@functools.cache
def openblas_core() -> str:
    """Return the core whose kernels OpenBLAS multiplies with ("SkylakeX"); "" if BLAS is another library.

    OpenBLAS chooses them when it is loaded: by the model of the processor, or by its features where the model is newer
    than the library, so a Zen 5 has the AVX-512 kernels of SkylakeX. OPENBLAS_CORETYPE overrules the choice.
    """
    for name in _openblas_functions("get_corename"):
        name.restype = ctypes.c_char_p
        return bytes(name()).decode("ascii", "replace")
    return ""


@functools.cache
def _setters() -> tuple[Callable[[ctypes.c_int], object], ...]:
    found = _openblas_functions("set_num_threads")
    accelerate = _accelerate_setter()
    return (*found, accelerate) if accelerate is not None else tuple(found)


def _openblas_functions(name: str) -> list[Any]:
    """Return the function of every OpenBLAS that is loaded; the library of NumPy's wheels adds to the names."""
    found = []
    for library in _loaded_openblas():
        for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
            if (function := getattr(library, f"{prefix}openblas_{name}{suffix}", None)) is not None:
                found.append(function)
                break
    return found


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
        lines = (
            line.split(maxsplit=5) for line in _MAPS.read_text(encoding="utf-8").splitlines() if "openblas" in line
        )
        found = sorted({Path(fields[5]) for fields in lines if len(fields) == 6})
    else:
        home = Path(sys.modules["numpy"].__file__ or "").parent
        found = [*home.glob(".dylibs/*openblas*"), *home.parent.glob("numpy.libs/*openblas*")]
    return [ctypes.CDLL(str(path)) for path in found if path.exists()]
