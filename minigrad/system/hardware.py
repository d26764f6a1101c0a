"""The machine: its memory, the number of threads, and malloc. It runs before NumPy loads its matrix library (BLAS)."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from minigrad.errors import InputError
from minigrad.system import blas, environment, memory, processors
from minigrad.system.control_groups import memory_left
from minigrad.system.units import plural

_POOL_VARIABLE = "MINIGRAD_THREADS"

# The constants of mallopt(3) in glibc.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEEP_BELOW, _OLD_LIMIT = 1 << 30, 32 << 20  # bytes; glibc before 2.35 refuses a larger mmap threshold than the second

_STATM, _MEMINFO = Path("/proc/self/statm"), Path("/proc/meminfo")  # of Linux

listeners: list[Callable[[int], object]] = []  # called with each new number of threads; the kernels' pool adds one


def threads() -> int:
    """Return the number of threads that kernels and matrix products use in this process."""
    return int(os.environ[_POOL_VARIABLE])


def prepare(threads: int | None = None, sharing: int = 1) -> None:
    """Set the number of threads, let BLAS compute in the thread that calls it, and let malloc keep freed memory.

    `import minigrad` calls this without an argument; a program calls it again with the number of --threads. The default
    is the number in the environment when the process began (MINIGRAD_THREADS, or a variable of a BLAS library), or else
    one thread per core, divided by the number of processes that are `sharing` them.
    Raises InputError for more threads than processors.
    """
    if threads is not None and threads > (most := processors.count()):
        raise InputError(f"{threads} threads would take turns on {most} processors; ask for at most {most}")
    count = threads or _ASKED_FOR or max(1, processors.cores() // sharing)
    os.environ[_POOL_VARIABLE] = str(count)
    changed = blas.set_environment(count)
    _keep_freed_memory()
    if "numpy" in sys.modules and not blas.use_one_thread() and changed:
        late = f"NumPy was loaded before {count} threads were chosen, and the thread count of its BLAS is now fixed"
        early = "Import minigrad first, or set MKL_NUM_THREADS or VECLIB_MAXIMUM_THREADS before starting Python."
        warnings.warn(f"{late}. {early}", stacklevel=2)
    for listener in listeners:
        listener(count)


def _asked_for() -> int | None:
    for variable in (_POOL_VARIABLE, *blas.THREAD_VARIABLES):
        value = os.environ.get(variable, "")
        if value.isdecimal() and int(value) > 0:
            return min(int(value), processors.count())
    return None


_ASKED_FOR = _asked_for()  # before `prepare` writes numbers of its own into the environment


def _keep_freed_memory() -> None:
    """Let malloc keep freed arrays instead of returning them to the operating system; only glibc has these settings.

    A fresh 2 MB array costs about 1 ms of page faults, one that malloc kept costs almost nothing, and each training
    step allocates the same arrays. All threads share one arena, because others return their memory when empty.
    Setting one threshold ends glibc's own adjustment of both. So the second is set only if the first was accepted:
    left at 128 KiB, it would make every larger array a fresh one.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    if libc.mallopt(_M_MMAP_THRESHOLD, _KEEP_BELOW) or libc.mallopt(_M_MMAP_THRESHOLD, _OLD_LIMIT):
        libc.mallopt(_M_TRIM_THRESHOLD, _KEEP_BELOW)
    libc.mallopt(_M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Return the freed memory that malloc keeps to the system, as after a model was loaded and its file closed."""
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def memory_bytes() -> int:
    """Return the resident memory of this process in bytes (its peak where the system tells no more)."""
    if _STATM.exists():
        return int(_STATM.read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return memory.windows_resident()[0] if sys.platform == "win32" else peak_memory_bytes()


def peak_memory_bytes() -> int:
    """Return the largest resident memory of this process so far in bytes."""
    if sys.platform == "win32":
        return memory.windows_resident()[1]
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def available_memory_bytes() -> int:
    """Return the bytes of memory that a new program could use now, here or in its container; 0 if that is not known."""
    if sys.platform == "win32":
        return memory.windows_available()
    if sys.platform == "darwin":
        return memory.macos_available()
    try:
        lines = _MEMINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    found = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
    return min([found, *memory_left()])


def may_use_tiles() -> bool:
    """Request the AMX tile registers from Linux, as a process must before it uses them; return whether it may."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0


def describe() -> str:
    """Describe in one line the machine, the threads in use, and the environment variables set that affect speed."""
    set_before = [f"{name}={value}" for name, value in environment.FOUND.items()]
    used, system = plural(threads(), "thread"), f"{platform.system()} {platform.machine()}"
    return ", ".join([processors.name(), plural(processors.cores(), "core"), used, system, *set_before])
