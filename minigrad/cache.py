"""The cache folder: files that save time the next time, and that can be deleted at any moment.

So nothing here may ever be the only copy of anything, and a full or read-only disk costs time, not the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def cache_folder() -> Path:
    """Return the folder for downloads, token files and compiled code; it need not exist yet.

    $MINIGRAD_CACHE if set; else `minigrad` in $XDG_CACHE_HOME (on Windows %LOCALAPPDATA%) or in ~/.cache.
    """
    if chosen := os.environ.get("MINIGRAD_CACHE"):
        return Path(chosen)
    system = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return Path(system or "~/.cache").expanduser() / "minigrad"


def store(path: Path, write: Callable[[BinaryIO], object]) -> bool:
    """Let `write(file)` fill the file `path` in one step, and return whether the disk allowed it.

    The bytes go to a temporary name that is then renamed. So whatever kills this process, the file is there
    as a whole or not at all.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError:
        return False
    return True
