"""The memory that Windows and macOS report: a C function fills a structure, or fails, and then the answer is 0.

Linux lists it in files (`minigrad.system.hardware`).
"""

from __future__ import annotations

import ctypes
import os
from typing import Any


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("installed", ctypes.c_uint64),
        ("available", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 5),  # of the page file, of addresses
    )


class _ProcessMemory(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS of Windows."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("faults", ctypes.c_uint32),
        ("peak", ctypes.c_size_t),
        ("resident", ctypes.c_size_t),
        ("rest", ctypes.c_size_t * 6),
    )


def windows_available() -> int:
    """Return the bytes that a new program could use on Windows."""
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    found = ctypes.CDLL("kernel32").GlobalMemoryStatusEx(ctypes.byref(status))
    return int(status.available) if found else 0


def windows_resident() -> tuple[int, int]:
    """Return the resident memory of this process on Windows in bytes, now and at its peak."""
    kernel32: Any = ctypes.CDLL("kernel32")
    kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    counters = _ProcessMemory(length=ctypes.sizeof(_ProcessMemory))
    process, size = ctypes.c_void_p(kernel32.GetCurrentProcess()), ctypes.c_uint32(counters.length)
    found = kernel32.K32GetProcessMemoryInfo(process, ctypes.byref(counters), size)
    return (int(counters.resident), int(counters.peak)) if found else (0, 0)


def macos_available() -> int:
    """Return the bytes that a new program could use on macOS: its free and its inactive pages."""
    library: Any = ctypes.CDLL(None)
    library.mach_host_self.restype = ctypes.c_uint32
    words, count = (ctypes.c_uint32 * 64)(), ctypes.c_uint32(64)  # the structure has fewer words in every version
    host, host_vm_info64 = ctypes.c_uint32(library.mach_host_self()), ctypes.c_int(4)
    if library.host_statistics64(host, host_vm_info64, words, ctypes.byref(count)) != 0:
        return 0
    free, inactive = words[0], words[2]
    return int(free + inactive) * os.sysconf("SC_PAGE_SIZE")
