"""The processor has a name on every system, also where it writes only numbers."""

from __future__ import annotations

import ctypes
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minigrad.system import processors

X86 = "processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: other\n"
ARM = "processor\t: 0\nCPU implementer\t: {}\nCPU part\t: {}\n\nprocessor\t: 1\nCPU part\t: 0x0\n"


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (X86, "AMD EPYC"),
        (ARM.format("0x41", "0xd0c"), "Arm Neoverse N1"),
        (ARM.format("0x41", "0xfff"), "Arm part 0xfff"),
        (ARM.format("0x99", "0xd0c"), "maker 0x99 part 0xd0c"),
        ("", "aarch64"),
    ],
)
def test_linux_lists_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpuinfo: str, name: str) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo, encoding="utf-8")
    monkeypatch.setattr(processors.sys, "platform", "linux")
    monkeypatch.setattr(processors, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(processors.platform, "processor", lambda: "")
    monkeypatch.setattr(processors.platform, "machine", lambda: "aarch64")
    assert processors.name() == name
    monkeypatch.setattr(processors, "_CPUINFO", tmp_path / "nowhere")
    assert processors.name() == "aarch64"


@pytest.mark.parametrize(("failure", "name"), [(0, "Apple M2"), (-1, "arm")])
def test_macos_knows_it(monkeypatch: pytest.MonkeyPatch, failure: int, name: str) -> None:
    def sysctlbyname(asked: bytes, value: Any, size: Any, new: Any, new_size: int) -> int:
        assert (asked, size._obj.value) == (b"machdep.cpu.brand_string", ctypes.sizeof(value._obj))
        value._obj.value = b"Apple M2"
        return failure

    monkeypatch.setattr(processors.sys, "platform", "darwin")
    monkeypatch.setattr(processors.ctypes, "CDLL", lambda name: SimpleNamespace(sysctlbyname=sysctlbyname))
    monkeypatch.setattr(processors.platform, "processor", lambda: "arm")
    assert processors.name() == name


@pytest.mark.parametrize(("error", "name"), [(None, "Snapdragon X"), (OSError("no such key"), "ARMv8")])
def test_windows_has_it_in_its_registry(monkeypatch: pytest.MonkeyPatch, error: Any, name: str) -> None:
    def query(key: str, asked: str) -> tuple[str, int]:
        assert (key, asked) == ("open", "ProcessorNameString")
        if error:
            raise error
        return "Snapdragon X  ", 1

    registry = SimpleNamespace(
        HKEY_LOCAL_MACHINE=0, OpenKey=lambda root, place: nullcontext("open"), QueryValueEx=query
    )
    monkeypatch.setitem(sys.modules, "winreg", registry)
    monkeypatch.setattr(processors.sys, "platform", "win32")
    monkeypatch.setattr(processors.platform, "processor", lambda: "ARMv8")
    assert processors.name() == name
