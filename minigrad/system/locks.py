"""A lock on a folder: one process writes, and a second one is refused before it changes anything.

The operating system keeps the lock for as long as the process has the file `.lock` open. So it also ends when the
process is killed; the file that is then left locks nothing. Reading needs no lock.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Self

from minigrad.errors import InputError
from minigrad.system.files import reason

LOCK_FILE = ".lock"
_HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)  # by another process; Windows gives the last two


class FolderLock:
    """The lock of this process on a folder, from `take` to the end of the ``with`` block, or of the process."""

    def __init__(self) -> None:
        self._held: tuple[int, Path] | None = None  # the descriptor of the locked file, and its path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self, folder: Path) -> None:
        """Lock an existing folder; raises InputError if another process has the lock, OSError if it cannot be written.

        On a file system without locks, a warning says that a second process would not be noticed.
        """
        self.release()
        path, descriptor = folder / LOCK_FILE, None
        # The process that had the lock may remove the file after it was opened here: then the next file is locked.
        while descriptor is None or not _is_file(descriptor, path):
            if descriptor is not None:
                os.close(descriptor)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _lock(descriptor)
            except OSError as error:
                if error.errno in _HELD:
                    owner = os.read(descriptor, 20).decode("ascii", "replace").strip()
                    os.close(descriptor)
                    raise InputError(
                        f"{folder} is being written by another process{owner and f' (number {owner})'}; wait until it "
                        "ends, or stop it"
                    ) from None
                advice = "do not start a second process that writes into it"
                warnings.warn(f"{folder} cannot be locked ({reason(error)}): {advice}", stacklevel=2)
        self._held = descriptor, path
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Give up the lock, if there is one, and remove its file."""
        if self._held is None:
            return
        (descriptor, path), self._held = self._held, None
        with suppress(OSError):  # Windows removes no open file
            path.unlink()
        os.close(descriptor)
        if os.name == "nt":
            with suppress(OSError):
                path.unlink()


def _is_file(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # Windows lets nobody read a locked byte: the number stays readable
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
