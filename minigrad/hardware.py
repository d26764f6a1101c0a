"""The machine: how many threads to use, how memory is handed back, and what this computer is called.

Everything here should happen before NumPy loads its matrix library (BLAS), so nothing is imported that needs NumPy.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from minigrad.errors import InputError

_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")
_POOL_VARIABLE = "MINIGRAD_THREADS"
_MAPS = Path("/proc/self/maps")  # where Linux lists the libraries a process has loaded

# glibc's numbers for mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEEP_BELOW = 1 << 30


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads() -> int:
    """Return how many threads BLAS and the kernels use in this process."""
    return int(os.environ[_POOL_VARIABLE])


def prepare(threads: int | None = None) -> None:
    """Set the thread counts of BLAS and of the kernel pool together, and keep freed memory at hand.

    Called once with no argument when `minigrad` is imported and again by the command lines with the number the user
    asked for. With no number: what the environment said when the process began (MINIGRAD_THREADS, or one of the
    variables that BLAS libraries read), else one thread per processor. Where NumPy is loaded already, its BLAS is told
    through the library itself. Raises InputError for more threads than processors: they would wait for each other.
    """
    if threads is not None and threads > cores():
        raise InputError(f"{threads} threads would take turns on {cores()} processors; ask for at most {cores()}")
    count = threads or _ASKED_FOR or cores()
    before = {variable: os.environ.get(variable) for variable in _THREAD_VARIABLES}
    for variable in (_POOL_VARIABLE, *_THREAD_VARIABLES):
        os.environ[variable] = str(count)
    # An idle OpenBLAS thread spins for 2**26 cycles by default and so steals a processor from the kernel that follows
    # a matrix product; 2**10 cycles are enough to catch the next product of the same layer.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
    _keep_freed_memory()
    if "numpy" in sys.modules and not _tell_loaded_blas(count) and set(before.values()) != {str(count)}:
        warnings.warn(
            f"NumPy was loaded before {count} threads were chosen, and its BLAS is none that can be told now. Import "
            f"minigrad before NumPy, or set {_THREAD_VARIABLES[1]} or {_THREAD_VARIABLES[2]} before starting Python.",
            stacklevel=2,
        )
    if (pool := sys.modules.get("minigrad.kernels.threads")) is not None:
        pool.set_threads(count)


def _asked_for() -> int | None:
    for variable in (_POOL_VARIABLE, *_THREAD_VARIABLES):
        value = os.environ.get(variable, "")
        if value.isdecimal() and int(value) > 0:
            return min(int(value), cores())
    return None


_ASKED_FOR = _asked_for()  # before `prepare` writes numbers of its own into the environment


def _keep_freed_memory() -> None:
    """Let malloc keep freed arrays instead of returning them to the kernel.

    A fresh 2 MB array costs about 1 ms of page faults, one that malloc kept costs almost nothing, and a training
    step makes the same arrays again and again. Other threads would get memory from places of their own, 64 MB each,
    that go back as soon as they are empty; so there is one place for all. Only glibc has these settings; elsewhere
    nothing is changed.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, _KEEP_BELOW)
    libc.mallopt(_M_TRIM_THRESHOLD, _KEEP_BELOW)
    libc.mallopt(_M_ARENA_MAX, 1)


def _tell_loaded_blas(count: int) -> bool:
    """Set the thread count of the OpenBLAS that NumPy has loaded, and return whether one was found.

    Other libraries (Intel's MKL, Apple's Accelerate) read their variable once, when they are loaded.
    """
    for library in _loaded_openblas():
        _let_idle_threads_sleep(library)
    for setter in (found := _openblas_setters()):
        setter(ctypes.c_int(count))
    return bool(found)


@functools.cache
def _openblas_setters() -> tuple[Callable[[ctypes.c_int], object], ...]:
    found = []
    for library in _loaded_openblas():
        for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
            symbol = f"{prefix}openblas_set_num_threads{suffix}"
            if (setter := getattr(library, symbol, None)) is not None:
                found.append(setter)
                break
    return tuple(found)


def can_set_blas_threads() -> bool:
    """Return whether the BLAS that NumPy has loaded can be given another number of threads while it runs."""
    return "numpy" in sys.modules and bool(_openblas_setters())


@contextlib.contextmanager
def blas_on_one_thread() -> Iterator[None]:
    """Let BLAS work in the thread that calls it, inside the block."""
    for setter in _openblas_setters():
        setter(ctypes.c_int(1))
    try:
        yield
    finally:
        for setter in _openblas_setters():
            setter(ctypes.c_int(threads()))


def _let_idle_threads_sleep(library: ctypes.CDLL) -> None:
    """Have a loaded OpenBLAS read OPENBLAS_THREAD_TIMEOUT again and start its threads anew, as it does after a fork.

    The functions are OpenBLAS's own (driver/others/openblas_env.c and blas_server.c), not part of its interface: a
    build that keeps them to itself is left as it is, and is a little slower.
    """
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
        lines = (line.split(maxsplit=5) for line in _MAPS.read_text().splitlines() if "openblas" in line)
        found = sorted({Path(fields[5]) for fields in lines if len(fields) == 6})
    else:
        home = Path(sys.modules["numpy"].__file__ or "").parent
        found = [*home.glob(".dylibs/*openblas*"), *home.parent.glob("numpy.libs/*openblas*")]
    return [ctypes.CDLL(str(path)) for path in found if path.exists()]


def memory_bytes() -> int:
    """Return the resident memory of this process in bytes (its peak where only the peak can be had)."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_memory_bytes()


def peak_memory_bytes() -> int:
    """Return the largest resident memory of this process so far in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def available_memory_bytes() -> int:
    """Return how many bytes of memory a new program could use now; 0 where the system does not tell."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


def processor() -> str:
    """Return the processor's name as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def describe() -> str:
    """Return one line that names the machine and the threads in use."""
    count = threads()
    used = f"{count} thread{'s' if count != 1 else ''}"
    return f"{processor()}, {cores()} cores, {used}, {platform.system()} {platform.machine()}"
