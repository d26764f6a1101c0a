"""The cache folder: files that save time in the next run, which goes on without them if they are deleted or refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from minigrad.system.files import reason, replacing


def cache_folder() -> Path:
    """Return the folder for downloads, token files and compiled code; it need not exist yet.

    It is `$MINIGRAD_CACHE` if that is set, otherwise `minigrad` in `$XDG_CACHE_HOME` (on Windows `%LOCALAPPDATA%`)
    or in `~/.cache`. Without a home folder it is a path where nothing can be written.
    """
    system = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    try:
        if chosen := os.environ.get("MINIGRAD_CACHE"):
            return Path(chosen).expanduser()
        return Path(system or "~/.cache").expanduser() / "minigrad"
    except RuntimeError:
        return Path(os.devnull) / "minigrad"


def tell_if_nothing_is_kept() -> None:
    """Say on standard error if the cache folder cannot be used; each program that compiles kernels calls this."""
    from minigrad.system.terminal import to_standard_error  # which loads every compression library

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        why = "" if os.access(folder, os.W_OK) else "it may not be written to"
    except OSError as error:
        why = reason(error)
    if why:
        to_standard_error(
            f"nothing can be kept in {folder} ({why}), so every start compiles the kernels again, for minutes: "
            "set MINIGRAD_CACHE to a folder that can be written to"
        )


def mark_used(path: Path) -> None:
    """Mark an entry of the cache as just used, so that `prune` keeps it."""
    with suppress(OSError):
        os.utime(path)


def prune(folder: Path, keep: int) -> None:
    """Remove all but the `keep` most recently used entries of a folder; Windows keeps files that a process has open."""
    import shutil  # which loads every compression library

    with suppress(OSError):
        entries = sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for old in entries[keep:]:
            shutil.rmtree(old, ignore_errors=True)  # removes folders only
            with suppress(OSError):
                old.unlink()


def store(path: Path, write: Callable[[BinaryIO], object]) -> bool:
    """Call `write(file)` to write `path`, completely or not at all; return whether it succeeded."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            write(file)
    except OSError:
        return False
    return True
