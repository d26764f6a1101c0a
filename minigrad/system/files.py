"""Files that are written whole or not at all, whatever kills the process.

A file is written under a temporary name, pushed to the disk (fsync) and then renamed. A rename happens wholly or not at
all, so a reader sees the old file or the new one. The fsync comes first, or after a power cut the new name could stand
on an empty file.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from minigrad.errors import RunError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write; when the block ends without an error, it becomes `path`.

    The name holds the number of the process, so that two writers never share a temporary file; what a killed process
    left behind is removed. Raises OSError if the disk refuses; the temporary file is then gone and `path` unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        leftover.unlink(missing_ok=True)
    try:
        yield temporary
        sync_file(temporary)
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the file at `path`, wholly or not at all; RunError if the disk refuses."""
    try:
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file at `path` by `text` in UTF-8, with the same line ends on every system."""
    write_bytes(path, text.encode())


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":  # Windows opens no folders; its file system keeps a journal of names instead
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """Return why the operating system refused, without the name of the file."""
    return error.strerror or str(error)
