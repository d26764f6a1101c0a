"""What Windows and macOS answer is read from their structures; on these systems the numbers are real."""

from __future__ import annotations

import ctypes
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from minigrad.system import hardware, memory


class Kernel32:
    """Windows with 16 GB, 5 of them available, and a process that has 3 and had 4."""

    def __init__(self, answers: bool = True) -> None:
        self.answers = answers
        self.GetCurrentProcess = lambda: -1

    def GlobalMemoryStatusEx(self, status: Any) -> bool:  # noqa: N802
        assert ctypes.sizeof(status._obj) == status._obj.length == 64
        status._obj.installed, status._obj.available = 16 << 30, 5 << 30
        return self.answers

    def K32GetProcessMemoryInfo(self, process: Any, counters: Any, size: Any) -> bool:  # noqa: N802
        assert ctypes.sizeof(counters._obj) == counters._obj.length == size.value == 72
        counters._obj.resident, counters._obj.peak = 3 << 30, 4 << 30
        return self.answers


def test_windows_tells_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: {"kernel32": Kernel32()}[name])
    assert (memory.windows_available(), memory.windows_resident()) == (5 << 30, (3 << 30, 4 << 30))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: Kernel32(answers=False))
    assert (memory.windows_available(), memory.windows_resident()) == (0, (0, 0))


def mach(words: dict[int, int], failure: int = 0) -> SimpleNamespace:
    def host_statistics64(host: Any, flavor: Any, buffer: Any, count: Any) -> int:
        assert (host.value, flavor.value, count._obj.value) == (7, 4, len(buffer))
        for place, pages in words.items():
            buffer[place] = pages
        return failure

    def mach_host_self() -> int:
        return 7

    return SimpleNamespace(mach_host_self=mach_host_self, host_statistics64=host_statistics64)


def test_macos_has_free_pages_and_unused_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.os, "sysconf", {"SC_PAGE_SIZE": 16_384}.__getitem__, raising=False)
    free_active_inactive_wired = {0: 100, 1: 1_000, 2: 30, 3: 10_000}
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: mach(free_active_inactive_wired))
    assert memory.macos_available() == 130 * 16_384
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: mach(free_active_inactive_wired, failure=5))
    assert memory.macos_available() == 0


def test_each_system_is_asked_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "windows_available", lambda: 1)
    monkeypatch.setattr(memory, "windows_resident", lambda: (2, 3))
    monkeypatch.setattr(memory, "macos_available", lambda: 4)
    monkeypatch.setattr(hardware.sys, "platform", "darwin")
    assert hardware.available_memory_bytes() == 4
    monkeypatch.setattr(hardware.sys, "platform", "win32")
    monkeypatch.setattr(hardware, "_STATM", hardware.Path("nowhere"))
    told = hardware.available_memory_bytes(), hardware.memory_bytes(), hardware.peak_memory_bytes()
    assert told == (1, 2, 3)


def test_what_is_known_of_this_machine() -> None:
    if sys.platform == "darwin":
        assert 0 < memory.macos_available() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    elif sys.platform == "win32":
        resident, peak = memory.windows_resident()
        assert 1_000_000 < resident <= peak
        assert memory.windows_available() > 1_000_000
    else:
        assert hardware.available_memory_bytes() > 1_000_000
