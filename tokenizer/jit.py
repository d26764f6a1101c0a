"""@kernel: the one decorator that compiles this package's loops, and the folder of their compiled code.

minigrad has a decorator of its own; this package can be used without minigrad.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator

Function = TypeVar("Function", bound=Callable[..., object])

KERNELS: dict[str, Callable[..., object]] = {}  # every kernel by its module's last name and its own, for the tests
_KEPT = 8  # folders of compiled kernels


def _code_folder() -> Path | None:
    """Return the folder of compiled kernels, or None if nothing can be written there.

    Numba notices a change in a kernel's own file, but not in a function that it calls from another file. So the
    folder is named by a hash of all sources of the package and of Numba's version. Its parent is `$MINIGRAD_CACHE`
    if that is set, otherwise `minigrad` in `$XDG_CACHE_HOME` (on Windows `%LOCALAPPDATA%`) or in `~/.cache`.
    """
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    system = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    chosen = os.environ.get("MINIGRAD_CACHE") or Path(system or "~/.cache") / "minigrad"
    try:
        folder = Path(chosen).expanduser() / "kernels" / f"tokenizer-{digest.hexdigest()}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            os.utime(folder)
    except (OSError, RuntimeError):  # RuntimeError: a user without a home folder
        return None
    with suppress(OSError):  # another process may remove some of them meanwhile
        others = sorted(folder.parent.glob("tokenizer-*"), key=lambda other: other.stat().st_mtime, reverse=True)
        for old in others[_KEPT:]:  # of versions that have not been used for a long time
            shutil.rmtree(old, ignore_errors=True)
    return folder


FOLDER = _code_folder()  # None where nothing can be written, and each start compiles the kernels again


class Locator(UserProvidedCacheLocator):
    """The place of a kernel's compiled code in the folder, which is the same for every copy of the same sources.

    Numba would recompile sources at another path, or newer ones: a second clone would compile everything again.
    """

    def get_source_stamp(self) -> str:
        """Return a hash of the kernel's own file: the folder's name does not change with files of other packages."""
        return hashlib.blake2b(Path(self._py_file).read_bytes(), digest_size=8).hexdigest()

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return the room of a kernel, as "structures"."""
        return Path(py_file).parent.name


class CodeFiles(IndexDataCacheFile):
    """The files of a kernel: an index, and one with the code for each combination of types of arguments.

    Numba numbers the files with code, so two processes that compile a kernel for different types at the same time may
    take the same number, and the index would mistake the code of one for the other's. Here each file has a name that
    no other process takes, and is complete before the index names it.
    """

    def load(self, key: Any) -> Any:
        """Return the code for some types of arguments; None if there is none, or if a file is damaged."""
        try:
            return super().load(key)  # type: ignore[no-untyped-call]
        except Exception:  # a power cut can leave files that are empty or cut short, and unpickling raises anything
            return None

    def _load_index(self) -> Any:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call]
        except Exception:
            return {}

    def save(self, key: Any, data: Any) -> None:
        """Write the code for some types of arguments."""
        name = self._load_index().get(key) or self._data_name(uuid.uuid4().int >> 64)  # type: ignore[no-untyped-call]
        self._save_data(name, data)  # type: ignore[no-untyped-call]
        self._save_index({**self._load_index(), key: name})  # type: ignore[no-untyped-call]


class CodeCache(FunctionCache):
    """Numba's cache of compiled code. A full disk only costs time: the next start compiles again."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        place = self._cache_path, self._impl.filename_base, self._cache_file._source_stamp
        self._cache_file: Any = CodeFiles(*place)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the code of a kernel for some types of arguments, if that is possible."""
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def kernel(function: Function) -> Function:
    """Compile a loop, which then releases Python's lock, divides as NumPy does, and is kept on disk.

    A kernel makes no arrays, so Numba need not count references to them (its runtime, "nrt", is off). The small kernels
    of this package, which call each other for every character, then run three times as fast.
    """
    settings: Any = numba.config  # its attributes come from the environment; mypy cannot see them
    before = settings.CACHE_DIR, settings.CACHE_LOCATOR_CLASSES
    settings.CACHE_DIR, settings.CACHE_LOCATOR_CLASSES = str(FOLDER or ""), f"{__name__}.{Locator.__name__}"
    # Nothing calls a kernel from C.
    options: Any = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
    try:
        compiled: Any = numba.njit(function, **options)
        if FOLDER is not None and not settings.DISABLE_JIT:
            compiled._cache = CodeCache(function)
    finally:
        settings.CACHE_DIR, settings.CACHE_LOCATOR_CLASSES = before  # other packages keep their kernels elsewhere
    KERNELS[f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"] = compiled
    return compiled
