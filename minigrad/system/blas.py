"""The BLAS library behind NumPy's matrix products: how many threads it uses, and how long idle ones spin.

Before NumPy is loaded, an environment variable sets the number of threads; afterwards only functions of the library
can. OpenBLAS has such functions, which count for the whole process. Apple's Accelerate, since macOS 15, has one that
chooses between one thread and all, for the thread that calls it. Intel's MKL, and Accelerate before, read their
variable only when they are loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
"""The environment variables that BLAS libraries read when they are loaded."""

_ACCELERATE = "/System/Library/Frameworks/Accelerate.framework/Accelerate"
_MAPS = Path("/proc/self/maps")  # where Linux lists the libraries a process has loaded


def set_environment(count: int) -> bool:
    """Set the variables for a BLAS that is loaded later; return whether they had other values before."""
    before = {variable: os.environ.get(variable) for variable in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    # An idle OpenBLAS thread spins for 2**26 cycles by default and so keeps a processor from the kernel that follows
    # a matrix product; 2**10 cycles are enough to catch the next product of the same layer.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
    return set(before.values()) != {str(count)}


def set_threads(count: int) -> bool:
    """Set the thread count of the BLAS that NumPy has loaded, and return whether it can be set."""
    for library in _loaded_openblas():
        _let_idle_threads_sleep(library)
    for setter in (found := _setters()):
        setter(ctypes.c_int(count))
    return bool(found)


def can_set_threads() -> bool:
    """Return whether the BLAS that NumPy has loaded accepts another number of threads while it runs."""
    return "numpy" in sys.modules and bool(_setters())


@contextlib.contextmanager
def one_thread(otherwise: int) -> Iterator[None]:
    """Let BLAS use only the thread that calls it inside the block, and `otherwise` threads after it.

    For Accelerate, that holds for products of the thread that enters the block; other threads that compute at the same
    time begin with `use_this_thread_only`.
    """
    for setter in _setters():
        setter(ctypes.c_int(1))
    try:
        yield
    finally:
        for setter in _setters():
            setter(ctypes.c_int(otherwise))


def use_this_thread_only() -> None:
    """Let BLAS compute the products of this thread in it alone, where that is a setting of each thread (Accelerate)."""
    if (setter := _accelerate_setter()) is not None:
        setter(ctypes.c_int(1))


@functools.cache
def _setters() -> tuple[Callable[[ctypes.c_int], object], ...]:
    found = []
    for library in _loaded_openblas():
        for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
            symbol = f"{prefix}openblas_set_num_threads{suffix}"
            if (setter := getattr(library, symbol, None)) is not None:
                found.append(setter)
                break
    accelerate = _accelerate_setter()
    return (*found, accelerate) if accelerate is not None else tuple(found)


@functools.cache
def _accelerate_setter() -> Callable[[ctypes.c_int], object] | None:
    if sys.platform != "darwin":
        return None
    try:
        function = ctypes.CDLL(_ACCELERATE).BLASSetThreading
    except (OSError, AttributeError):  # before macOS 15
        return None
    return lambda count: function(ctypes.c_uint(count.value == 1))  # 1: one thread, 0: as many as it was loaded with


def _let_idle_threads_sleep(library: ctypes.CDLL) -> None:
    """Make a loaded OpenBLAS read OPENBLAS_THREAD_TIMEOUT again and restart its threads, as after a fork.

    The functions are OpenBLAS's own (driver/others/openblas_env.c and blas_server.c), not part of its interface: a
    build that does not export them is left as it is, and is a little slower. So is one that may be multiplying in
    another thread: it would wait forever for a product whose threads were stopped.
    """
    if threading.active_count() > 1:
        return
    steps = ("openblas_read_env", "openblas_thread_timeout", "blas_thread_shutdown_")
    read, timeout, stop_threads = (getattr(library, name, None) for name in steps)
    if read is None or timeout is None or stop_threads is None:
        return
    before = timeout()
    read()
    if timeout() != before:
        stop_threads()  # the next matrix product starts them


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
