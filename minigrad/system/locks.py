"""A lock on a folder: one process writes, and a second one is refused before it changes anything.

The operating system keeps the lock while the process has the file `.lock` open. So a lock ends with its process, even
one that is killed; the file alone locks nothing. Reading needs no lock.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Self

from minigrad.errors import InputError, RunError
from minigrad.system.files import kind_of, reason
from minigrad.system.terminal import printable

LOCK_FILE = ".lock"
_OPENED = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # Windows lacks both
_HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)  # by another process; Windows gives the last two


class FolderLock:
    """The lock of this process on a folder, from `take` to the end of the ``with`` block, or of the process."""

    _held: tuple[int, Path] | None = None  # the descriptor of the locked file, and its path
    _folder: os.stat_result | None = None  # that of the folder when it was locked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def folder(self) -> Path | None:
        """The locked folder, None without a lock."""
        return None if self._held is None else self._held[1].parent

    def take(self, folder: Path) -> None:
        """Lock an existing folder; raises InputError if another process has the lock, OSError if it cannot be written.

        In a folder from elsewhere, `.lock` may be a link to a file of the user, or a pipe: InputError is raised before
        it is opened. On a file system without locks, a warning says that a second process would not be noticed.
        """
        self.release()
        path, descriptor = folder / LOCK_FILE, None
        # The last owner may remove the file after it was opened here: then the next file is locked.
        while descriptor is None or not _is_same(os.fstat(descriptor), path):
            if descriptor is not None:
                os.close(descriptor)
            with suppress(FileNotFoundError):
                _check_file(path, path.lstat())
            descriptor = os.open(path, _OPENED, 0o666)
            try:
                _check_file(path, os.fstat(descriptor))
                _lock(descriptor)
            except InputError:
                os.close(descriptor)
                raise
            except OSError as error:
                if error.errno in _HELD:
                    owner = os.read(descriptor, 20).decode("ascii", "replace").strip()
                    os.close(descriptor)
                    raise InputError(
                        f"{folder} is being written by another process{owner and f' (number {owner})'}; wait until it "
                        "ends, or stop it"
                    ) from None
                said = f"{folder} cannot be locked ({reason(error)}): do not start a second process that writes into it"
                warnings.warn(printable(said), stacklevel=2)
        self._held, self._folder = (descriptor, path), folder.stat()
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())

    def check(self) -> None:
        """Raise RunError if the locked folder was removed or replaced; do nothing without a lock."""
        if (folder := self.folder) is None or self._folder is None:
            return
        if not _is_same(self._folder, folder):
            raise RunError(f"{folder} was removed while this process was writing into it; nothing more is written")

    def release(self) -> None:
        """Give up the lock, if there is one, and remove its file; one of that name in a folder made anew stays."""
        if self._held is None:
            return
        (descriptor, path), self._held = self._held, None
        is_ours = _is_same(os.fstat(descriptor), path)
        with suppress(OSError):  # Windows removes no open file
            if is_ours:
                path.unlink()
        os.close(descriptor)
        if os.name == "nt" and is_ours:
            with suppress(OSError):
                path.unlink()


def _check_file(path: Path, status: os.stat_result) -> None:
    """Raise InputError unless this is the status of a file with one name, so that writing changes no other file."""
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        kind = "a second name of another file" if stat.S_ISREG(status.st_mode) else kind_of(status.st_mode)
        raise InputError(f"{path} is {kind}, and should be a file with the number of a process; delete it")


def _is_same(status: os.stat_result, path: Path) -> bool:
    """Whether the file or folder at `path` is still the one with this status."""
    try:
        return os.path.samestat(status, path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # Windows refuses to read a locked byte; the number stays readable
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
