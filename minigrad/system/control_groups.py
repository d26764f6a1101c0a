"""The control groups of Linux, by which a container has a share of the processors' time and of the memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def groups(controller: str) -> Iterator[tuple[int, Path]]:
    """Yield the version, 1 or 2, and the folder of each group that may limit what a controller gives this process."""
    try:
        lines = (ROOT / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:  # hierarchy:controllers:path; the second version has neither number nor controllers
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            version, folder = 2, ROOT / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            version, folder = 1, ROOT / "sys/fs/cgroup" / controllers
        else:
            continue
        group = folder / path.lstrip("/")
        # Inside a container the path may be that of the host, which is not visible: then the root is the container's.
        for place in {folder, *(each for each in (group, *group.parents) if each.is_relative_to(folder))}:
            yield version, place


def quotas() -> Iterator[int]:
    """Yield the processors that a group may keep busy, for each that has a limit."""
    for version, place in groups("cpu"):
        names = ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        try:
            quota, period = map(int, " ".join((place / name).read_text(encoding="ascii") for name in names).split())
        except (OSError, ValueError):  # no such file, or "max": no limit
            continue
        if quota > 0 < period:
            yield max(1, -(-quota // period))


def memory_left() -> Iterator[int]:
    """Yield the bytes that a group may still use, for each that has a limit; what it keeps of files can be given up."""
    for version, place in groups("memory"):
        names = ["memory.max", "memory.current"] if version == 2 else ["memory.limit_in_bytes", "memory.usage_in_bytes"]
        total = "" if version == 2 else "total_"
        try:
            limit, now = (int((place / name).read_text(encoding="ascii")) for name in names)
            lines = (place / "memory.stat").read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):
            continue
        sizes = {name: int(size) for name, size in (line.split() for line in lines)}
        kept = sum(sizes.get(name, 0) for name in (f"{total}active_file", f"{total}inactive_file", "slab_reclaimable"))
        yield max(1, limit - now + kept)  # 0 would mean that nothing is known
