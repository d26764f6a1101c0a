"""The words of a command that a program printed, as a shell of this system reads them."""

from __future__ import annotations

import ctypes
import os
import shlex


def command_words(command: str) -> list[str]:
    if os.name != "nt":
        return shlex.split(command)
    count = ctypes.c_int()
    split = ctypes.CDLL("shell32").CommandLineToArgvW
    split.argtypes, split.restype = (ctypes.c_wchar_p, ctypes.c_void_p), ctypes.POINTER(ctypes.c_wchar_p)
    return list(split(command, ctypes.byref(count))[: count.value])
