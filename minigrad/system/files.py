"""Atomic files: written completely or not at all, even if the process is killed.

A file is written under a temporary name, synced to the disk (fsync) and then renamed. A rename is atomic: a reader sees
the old file or the new one. Without the fsync, the new name could belong to an empty file after a power cut.
"""

from __future__ import annotations

import glob
import hashlib
import os
import platform
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from minigrad.errors import InputError, RunError
from minigrad.system.units import format_bytes

_DAY = 86_400  # seconds
_WAITS = (0.01, 0.1, 0.4, 1.0)  # seconds between tries to rename a file that another program has open


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write; when the block ends without an error, it becomes `path`.

    Its name holds the machine, the process and the thread. Files of processes that have ended here are removed, those
    of other machines after a day, and one of our own name, which may be a link to a file elsewhere. Raises OSError if
    the disk is full or read-only; `path` is then unchanged.
    """
    machine = mark_of_machine()
    temporary = path.with_name(f".{path.name}.{machine}-{os.getpid()}-{threading.get_native_id()}.tmp")
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*-*-*.tmp"):
        found = re.fullmatch(r"([0-9a-f]{8})-(\d+)-\d+", leftover.name.split(".")[-2])
        if leftover != temporary and (found is None or _may_be_written(leftover, found[1] == machine, found[2])):
            continue
        with suppress(PermissionError):  # on Windows, a file that another process has open
            leftover.unlink(missing_ok=True)
    try:
        yield temporary
        sync_file(temporary)
        move(temporary, path)
        sync_folder(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _may_be_written(leftover: Path, is_of_this_machine: bool, process: str) -> bool:
    """Whether the process that makes a temporary file may still be at work."""
    if is_of_this_machine:
        return _is_running(process)
    try:
        return time.time() - leftover.stat().st_mtime < _DAY
    except OSError:
        return True


def mark_of_machine() -> str:
    """Return a hash of the name of this machine: several may share a folder, and number their processes alike."""
    return hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()


def _is_running(number: str) -> bool:
    """Whether a process has this number; Windows cannot tell, but does not let open files be removed."""
    if os.name == "nt":
        return False
    try:
        with suppress(PermissionError):  # a process of another user
            os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    return True


def read_bytes(path: Path, *, at_most: int | None = None) -> bytes:
    """Return the content of a file; raises InputError if it cannot be read or has more than `at_most` bytes."""
    content = read_start(path, -1 if at_most is None else at_most + 1)
    if at_most is not None and len(content) > at_most:
        raise InputError(f"{path} is damaged or something else: it has more than {format_bytes(at_most)}")
    return content


def read_start(path: Path, count: int) -> bytes:
    """Return the first `count` bytes of a file, or all of it if `count` is -1.

    Raises InputError if it cannot be read, or is a device or a pipe, which may never end.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise OSError(0, f"it is {kind_of(mode)}")
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from error
    except ValueError as error:  # an impossible name, such as one with a NUL
        raise InputError(f"cannot read {str(path)!r}: {error}") from error


def kind_of(mode: int) -> str:
    """Return the kind of file that a mode of `stat` describes: "a folder", "a pipe"."""
    names = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link"}
    names |= {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")


def check_new_file(path: Path) -> None:
    """Raise InputError if a file exists, because none is overwritten, or cannot be made in its folder."""
    try:
        exists, is_folder, folder = path.exists() or path.is_symlink(), path.is_dir(), path.parent.is_dir()
    except (OSError, ValueError) as error:  # an impossible name: too long, or with a NUL
        raise InputError(f"cannot write {str(path)!r}: {getattr(error, 'strerror', None) or error}") from error
    if is_folder:
        raise InputError(f"{path} is a folder; name a file, such as one in it")
    if exists:
        raise InputError(f"{path} exists and is not overwritten; delete it, or name another file")
    if not folder:
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {path.parent} may not be written to")


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the file at `path`, completely or not at all; raises RunError if it cannot be written."""
    try:
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace the file at `path` by `text` in UTF-8, with the same line breaks on every system."""
    write_bytes(path, text.encode())


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb+") as file:
        flush(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":  # Windows opens no folders; its file system keeps a journal instead
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def flush(descriptor: int) -> None:
    """Wait until the bytes written to an open file are on the disk."""
    if sys.platform == "darwin":  # where fsync leaves them in the drive's memory
        import fcntl

        with suppress(OSError):  # a file system may lack this call
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def move(source: Path, target: Path) -> Path:
    """Rename a file or a folder to `target`, and return that; a file of that name is replaced.

    On Windows a virus scanner may hold a new file for a moment; then the rename is tried again.
    """
    for seconds in _WAITS if os.name == "nt" else ():
        with suppress(PermissionError):
            return source.replace(target)
        time.sleep(seconds)
    return source.replace(target)


def distinct_names(folders: Sequence[str]) -> list[str]:
    """Return the names of different folders, with as many of the folders above them as tell them apart.

    >>> distinct_names(["a/run", "b/run"]), distinct_names(["runs/a", "runs/b"])
    (['a/run', 'b/run'], ['a', 'b'])
    """
    parts, length = [Path(folder).resolve().parts for folder in folders], 1
    while len({each[-length:] for each in parts}) < len(parts):
        length += 1
    return ["/".join(each[-length:]) for each in parts]


def reason(error: OSError) -> str:
    """Return the reason of an error of the operating system, without the name of the file."""
    return error.strerror or str(error)
