"""The processors that this process may use, and how many cores they are.

Two hyperthreads of one core share its vector units, so a second thread there adds nothing to a loop that keeps them
busy, and makes both wait for each other: threads are counted by cores. A process may be restricted to some processors
(affinity), and a container to a share of their time (a quota). What a system does not tell is not guessed: then every
processor counts as a core.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_ROOT = Path("/")


def count() -> int:
    """Return the number of processors that this process may use; those of one core are its hyperthreads."""
    return len(allowed())


def cores() -> int:
    """Return the number of cores that this process may use, at most the processors that its container may use.

    On Apple's processors only the fast cores count: the others have a third of their speed, and a loop that is divided
    among all would wait for them.
    """
    found: int | None
    if sys.platform == "linux":
        found = _linux_cores()
    elif sys.platform == "darwin":
        found = _sysctl("hw.perflevel0.physicalcpu") or _sysctl("hw.physicalcpu")
    else:
        found = _windows_cores() if sys.platform == "win32" else None
    return min(found or count(), count())


def allowed() -> set[int]:
    """Return the numbers of the processors that this process may use; all of them where a system restricts none."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)  # Windows and macOS lack it
    return affinity(0) if affinity else set(range(os.cpu_count() or 1))


def _linux_cores() -> int:
    siblings = set()
    for number in allowed():
        path = _ROOT / f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
        try:
            siblings.add(path.read_text(encoding="ascii"))  # the same text for every hyperthread of a core
        except OSError:
            siblings.add(str(number))
    return min([len(siblings), *_quotas()])


def _quotas() -> Iterator[int]:
    """Yield the processors that the process's control groups may keep busy, for each group that has a limit."""
    try:
        lines = (_ROOT / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:  # hierarchy:controllers:path; the second version has neither number nor controllers
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            folder, read = _ROOT / "sys/fs/cgroup", _quota
        elif "cpu" in controllers.split(","):
            folder, read = _ROOT / "sys/fs/cgroup" / controllers, _old_quota
        else:
            continue
        group = folder / path.lstrip("/")
        # Inside a container the path may be that of the host, which is not visible: then the root is the container's.
        for place in {folder, *(each for each in (group, *group.parents) if each.is_relative_to(folder))}:
            try:
                quota, period = read(place)
            except (OSError, ValueError):  # no such file, or "max": no limit
                continue
            if quota > 0 < period:
                yield max(1, -(-quota // period))


def _quota(group: Path) -> tuple[int, int]:
    quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
    return int(quota), int(period)


def _old_quota(group: Path) -> tuple[int, int]:
    quota, period = ((group / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period"))
    return int(quota), int(period)


def _sysctl(name: str) -> int | None:
    """Return an integer that macOS knows by name, or None."""
    value, size = ctypes.c_int32(), ctypes.c_size_t(4)
    found = ctypes.CDLL(None).sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    return value.value if found == 0 and value.value > 0 else None


class _ProcessorInformation(ctypes.Structure):
    """SYSTEM_LOGICAL_PROCESSOR_INFORMATION of Windows."""

    _fields_ = (
        ("mask", ctypes.c_size_t),  # one bit for each processor
        ("relationship", ctypes.c_uint32),  # 0: the processors of one core
        ("details", ctypes.c_uint64 * 2),
    )


def _windows_cores() -> int | None:
    kernel32 = ctypes.CDLL("kernel32")
    size = ctypes.c_uint32(0)
    kernel32.GetLogicalProcessorInformation(None, ctypes.byref(size))  # fails, and says how much memory is needed
    entries = (_ProcessorInformation * (size.value // ctypes.sizeof(_ProcessorInformation)))()
    if not kernel32.GetLogicalProcessorInformation(entries, ctypes.byref(size)):
        return None
    allowed, installed = ctypes.c_size_t(), ctypes.c_size_t()
    kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    process = ctypes.c_void_p(kernel32.GetCurrentProcess())
    if not kernel32.GetProcessAffinityMask(process, ctypes.byref(allowed), ctypes.byref(installed)):
        return None
    return sum(entry.relationship == 0 and bool(entry.mask & allowed.value) for entry in entries) or None
