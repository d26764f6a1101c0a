"""The processors that this process may use, their cores, and their name.

Two hyperthreads of one core share its vector units: a second thread adds nothing to a loop that keeps them busy. So
threads are counted by cores. A process may be restricted to some processors (affinity), and a container to a share of
their time (a quota). Where the system does not list cores, every processor counts as one.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minigrad.system.control_groups import quotas

_ROOT = Path("/")


def count() -> int:
    """Return the number of processors that this process may use; those of one core are its hyperthreads."""
    return len(allowed())


def cores() -> int:
    """Return the number of cores that this process may use, at most the quota of its container.

    On Apple's processors only the fast cores count: a loop divided among all would wait for the slow ones.
    """
    found: int | None = None
    if sys.platform == "linux":
        found = _linux_cores()
    elif sys.platform == "darwin":
        found = _macos_count("hw.perflevel0.physicalcpu") or _macos_count("hw.physicalcpu")
    elif sys.platform == "win32":
        found = _windows_cores()
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
    return min([len(siblings), *quotas()])


def _macos_count(name: str) -> int | None:
    value = ctypes.c_int32()
    return value.value if _sysctl(name, value) and value.value > 0 else None


def _sysctl(name: str, value: Any) -> bool:
    """Fill a C value with the value that macOS has under a name; return whether it has one."""
    size = ctypes.c_size_t(ctypes.sizeof(value))
    found = ctypes.CDLL(None).sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    return bool(found == 0)


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


_CPUINFO = Path("/proc/cpuinfo")
# Linux names an ARM processor by two numbers, its maker and its design (MIDR_EL1).
_MAKERS = {"0x41": "Arm", "0x46": "Fujitsu", "0x48": "HiSilicon", "0x51": "Qualcomm", "0x61": "Apple", "0xc0": "Ampere"}
_DESIGNS = {"0xd08": "Cortex-A72", "0xd0b": "Cortex-A76", "0xd0c": "Neoverse N1", "0xd40": "Neoverse V1"}
_DESIGNS |= {"0xd49": "Neoverse N2", "0xd4f": "Neoverse V2"}  # of Arm, in most small computers and large servers


def name() -> str:
    """Return the name of the processor, or of its architecture if the system gives none."""
    read = {"darwin": _macos_name, "win32": _registry}.get(sys.platform, _cpuinfo)
    return read() or platform.processor() or platform.machine()


def _cpuinfo() -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    values = {name.strip(): value.strip() for name, _, value in reversed([line.partition(":") for line in lines])}
    if "model name" in values or "CPU part" not in values:
        return values.get("model name", "")
    maker, part = values.get("CPU implementer", ""), values["CPU part"]
    design = _DESIGNS.get(part) if maker == "0x41" else None
    return f"{_MAKERS.get(maker, f'maker {maker}')} {design or f'part {part}'}"


def _macos_name() -> str:
    value = ctypes.create_string_buffer(256)
    return value.value.decode("utf-8", "replace").strip() if _sysctl("machdep.cpu.brand_string", value) else ""


def _registry() -> str:
    """Return the name in the registry of Windows, or ""."""
    import winreg

    place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:  # type: ignore[attr-defined,unused-ignore]
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return ""
