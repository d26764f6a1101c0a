"""Cores instead of hyperthreads, and only as many as the process may use."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minigrad.system import control_groups, processors
from minigrad.system.processors import cores


def test_there_is_a_core_and_no_more_cores_than_processors() -> None:
    assert 1 <= cores() <= processors.count() <= (os.cpu_count() or 1)


@pytest.fixture
def machine(monkeypatch: Any, tmp_path: Path) -> Any:
    """Return a function that makes a Linux machine of groups of hyperthreads, and files of its control groups."""

    def make(siblings: list[str], allowed: set[int], files: dict[str, str] | None = None) -> None:
        for group in siblings:
            for number in (int(text) for text in group.split(",")):
                folder = tmp_path / f"sys/devices/system/cpu/cpu{number}/topology"
                folder.mkdir(parents=True)
                (folder / "thread_siblings_list").write_text(f"{group}\n", encoding="ascii")
        for name, text in (files or {}).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="ascii")

        monkeypatch.setattr(processors, "_ROOT", tmp_path)
        monkeypatch.setattr(control_groups, "ROOT", tmp_path)
        monkeypatch.setattr(processors.sys, "platform", "linux")
        monkeypatch.setattr(processors.os, "sched_getaffinity", lambda process: allowed, raising=False)

    return make


FOUR_CORES = ["0,4", "1,5", "2,6", "3,7"]


def test_hyperthreads_of_a_core_count_once(machine: Any) -> None:
    machine(FOUR_CORES, set(range(8)))
    assert (cores(), processors.count()) == (4, 8)


def test_cores_without_hyperthreads_count_too(machine: Any) -> None:
    machine(["0,1", "2,3", "4", "5"], set(range(6)))
    assert cores() == 4


@pytest.mark.parametrize(("allowed", "count"), [({0, 4}, 1), ({0, 1}, 2), ({3, 4, 7}, 2)])
def test_only_cores_that_the_process_may_use_count(machine: Any, allowed: set[int], count: int) -> None:
    machine(FOUR_CORES, allowed)
    assert cores() == count


def test_without_a_topology_every_processor_is_a_core(machine: Any) -> None:
    machine([], {0, 1, 2})
    assert cores() == 3


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),  # half a processor more
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 4),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "900000 100000\n"}, 4),
        ({"proc/self/cgroup": "0::/user/job\n", "sys/fs/cgroup/user/cpu.max": "100000 100000\n"}, 1),  # of a parent
        ({"proc/self/cgroup": "0::/host/path\n", "sys/fs/cgroup/cpu.max": "300000 100000\n"}, 3),  # of the container
        ({"proc/self/cgroup": "0::/\n"}, 4),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/job\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
    ],
)
def test_the_quota_of_a_container_is_respected(machine: Any, files: dict[str, str], count: int) -> None:
    machine(FOUR_CORES, set(range(8)), files)
    assert cores() == count


@pytest.mark.parametrize(
    ("known", "count"),
    [
        ({"hw.perflevel0.physicalcpu": 4, "hw.physicalcpu": 8}, 4),  # Apple: fast cores only
        ({"hw.physicalcpu": 6}, 6),  # Intel
        ({}, 12),
    ],
)
def test_macos_tells_its_cores(monkeypatch: Any, known: dict[str, int], count: int) -> None:
    monkeypatch.setattr(processors.sys, "platform", "darwin")
    monkeypatch.delattr(processors.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(processors.os, "cpu_count", lambda: 12)

    def sysctlbyname(name: bytes, value: Any, size: Any, new: Any, new_size: int) -> int:
        assert size._obj.value == ctypes.sizeof(value._obj)
        if name.decode() not in known:
            return -1
        value._obj.value = known[name.decode()]
        return 0

    monkeypatch.setattr(processors.ctypes, "CDLL", lambda name: SimpleNamespace(sysctlbyname=sysctlbyname))
    assert cores() == count


class Kernel32:
    """Windows on four cores with two hyperthreads each, and a cache that all of them share."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.GetCurrentProcess = lambda: None

    def GetLogicalProcessorInformation(self, entries: Any, size: Any) -> int:  # noqa: N802
        described = [(0b11 << 2 * core, 0) for core in range(4)] + [(0xFF, 2)]
        size._obj.value = len(described) * ctypes.sizeof(processors._ProcessorInformation)
        if entries is None:
            return 0
        for entry, (mask, relationship) in zip(entries, described, strict=True):
            entry.mask, entry.relationship = mask, relationship
        return 1

    def GetProcessAffinityMask(self, process: Any, allowed: Any, installed: Any) -> int:  # noqa: N802
        allowed._obj.value, installed._obj.value = self.allowed, 0xFF
        return self.allowed >= 0


@pytest.mark.parametrize(("allowed", "count"), [(0xFF, 4), (0b1111, 2), (0b1001, 2), (-1, 8), (0, 8)])
def test_windows_tells_its_cores(monkeypatch: Any, allowed: int, count: int) -> None:
    monkeypatch.setattr(processors.sys, "platform", "win32")
    monkeypatch.delattr(processors.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(processors.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(processors.ctypes, "CDLL", lambda name: Kernel32(allowed))
    assert cores() == count
