"""The cache folder: files that save time the next time, and that can be deleted at any moment.

Nothing here may ever be the only copy of anything, and a full or read-only disk costs time, not the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from minigrad.system.files import replacing


def cache_folder() -> Path:
    """Return the folder for downloads, token files and compiled code; it need not exist yet.

    $MINIGRAD_CACHE if set; else `minigrad` in $XDG_CACHE_HOME (on Windows %LOCALAPPDATA%) or in ~/.cache.
    """
    if chosen := os.environ.get("MINIGRAD_CACHE"):
        return Path(chosen)
    system = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return Path(system or "~/.cache").expanduser() / "minigrad"


def store(path: Path, write: Callable[[BinaryIO], object]) -> bool:
    """Let `write(file)` fill the file `path`, wholly or not at all, and return whether the disk allowed it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            write(file)
    except OSError:
        return False
    return True
