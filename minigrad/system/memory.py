"""The memory that Windows and macOS report; Linux lists it in files (`minigrad.system.hardware`).

A C function fills a structure. If it fails, the answer is 0: not known.
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


_VM_INFO, _WORDS = 4, 64  # HOST_VM_INFO64, whose structure has fewer words in every version
_FREE, _INACTIVE = 0, 2  # the places of two numbers of pages in the structure


def macos_available() -> int:
    """Return the bytes that a new program could use on macOS: its free and its inactive pages."""
    library: Any = ctypes.CDLL(None)
    library.mach_host_self.restype = ctypes.c_uint32
    words, count = (ctypes.c_uint32 * _WORDS)(), ctypes.c_uint32(_WORDS)
    host = ctypes.c_uint32(library.mach_host_self())
    if library.host_statistics64(host, ctypes.c_int(_VM_INFO), words, ctypes.byref(count)) != 0:
        return 0
    return int(words[_FREE] + words[_INACTIVE]) * os.sysconf("SC_PAGE_SIZE")
