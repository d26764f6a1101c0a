"""The name of the processor, for the description of a machine."""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_MAKERS = {"0x41": "Arm", "0x46": "Fujitsu", "0x48": "HiSilicon", "0x51": "Qualcomm", "0x61": "Apple", "0xc0": "Ampere"}
_PARTS = {
    ("0x41", "0xd03"): "Cortex-A53",
    ("0x41", "0xd05"): "Cortex-A55",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd49"): "Neoverse N2",
    ("0x41", "0xd4f"): "Neoverse V2",
    ("0x46", "0x001"): "A64FX",
    ("0x48", "0xd01"): "Kunpeng 920",
    ("0x51", "0x001"): "Oryon",
    ("0xc0", "0xac3"): "Ampere-1",
}
"""ARM processors write two numbers where others have a name: those of the maker and of the design (MIDR_EL1)."""


def processor_name() -> str:
    """Return the processor's name as the system gives it; that of the architecture where it gives none."""
    if sys.platform == "darwin":
        name = _sysctl("machdep.cpu.brand_string")
    elif sys.platform == "win32":
        name = _registry()
    else:
        name = _cpuinfo()
    return name or platform.processor() or platform.machine()


def _cpuinfo() -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    values = {name.strip(): value.strip() for name, _, value in reversed([line.partition(":") for line in lines])}
    if "model name" in values or "CPU part" not in values:
        return values.get("model name", "")
    maker, part = values.get("CPU implementer", ""), values["CPU part"]
    return f"{_MAKERS.get(maker, f'maker {maker}')} {_PARTS.get((maker, part), f'part {part}')}"


def _sysctl(name: str) -> str:
    """Return a text that macOS knows by name, or ""."""
    value, size = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
    found = ctypes.CDLL(None).sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0)
    return value.value.decode("utf-8", "replace").strip() if found == 0 else ""


def _registry() -> str:
    """Return the name in the registry of Windows, or ""."""
    import winreg

    place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:  # type: ignore[attr-defined,unused-ignore]
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return ""
