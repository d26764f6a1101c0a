"""Whether this process may use tile registers, which the system has to allow."""

from __future__ import annotations

import ctypes
import platform
import sys


def may_use_tiles() -> bool:
    """Ask Linux for the tile registers: they are large, so a process has to ask once before it touches them."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0
