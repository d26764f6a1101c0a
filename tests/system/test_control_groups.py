"""What a container may use: a share of the processors' time and of the memory, by both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from minigrad.system import control_groups, hardware
from minigrad.system.control_groups import memory_left, quotas

SECOND = {
    "proc/self/cgroup": "0::/job\n",
    "sys/fs/cgroup/memory.max": "max\n",
    "sys/fs/cgroup/job/memory.max": "1000\n",
    "sys/fs/cgroup/job/memory.current": "700\n",
    "sys/fs/cgroup/job/memory.stat": "anon 400\nactive_file 100\ninactive_file 50\n",
    "sys/fs/cgroup/job/cpu.max": "150000 100000\n",
}
FIRST = {
    "proc/self/cgroup": "4:memory:/job\n3:cpu,cpuacct:/job\n",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1000\n",
    "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1000\n",
    "sys/fs/cgroup/memory/job/memory.stat": "inactive_file 1\ntotal_inactive_file 20\ntotal_active_file 10\n",
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "300000\n",
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
}


def place(folder: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="ascii")
    monkeypatch.setattr(control_groups, "ROOT", folder)


@pytest.mark.parametrize(("files", "left", "processors"), [(SECOND, [450], [2]), (FIRST, [30], [3]), ({}, [], [])])
def test_limits_of_both_versions_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], left: list[int], processors: list[int]
) -> None:
    place(tmp_path, files, monkeypatch)
    assert ([*memory_left()], [*quotas()]) == (left, processors)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="of Linux")
def test_a_container_has_no_more_memory_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(tmp_path, SECOND, monkeypatch)
    assert hardware.available_memory_bytes() == 450
    place(tmp_path, SECOND | {"sys/fs/cgroup/job/memory.current": "2000\n"}, monkeypatch)
    assert hardware.available_memory_bytes() == 1  # more than nothing, which would mean that it is not known
