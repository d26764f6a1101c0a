"""@kernel: the one spelling of `numba.njit` for this package's loops, and where their compiled code is kept.

It is the twin of the decorator in minigrad, because this package can be used without minigrad.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])

KERNELS: dict[str, Callable[..., object]] = {}
"""Every kernel by module and name; the tests walk this table."""


def _code_folder() -> Path | None:
    """Return where compiled kernels are kept, or None if nothing can be written there.

    Numba notices an edit in a kernel's own file, but not in a function it calls from another file. So the
    folder is named by a hash of the package's sources and of Numba's version. Its parent is $MINIGRAD_CACHE
    if set; else `minigrad` in $XDG_CACHE_HOME (on Windows in %LOCALAPPDATA%); else ~/.cache/minigrad.
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
            return folder
    except (OSError, RuntimeError):  # RuntimeError: a user without a home folder
        return None


_FOLDER = _code_folder()


def kernel(function: Function) -> Function:
    """Compile a loop: it releases Python's lock, is kept on disk, and divides as NumPy does.

    A kernel only uses arrays that it is given and makes none. So Numba need not count references to them (its runtime,
    "nrt"), and the small kernels here, which call each other for every letter, run three times as fast.
    """
    settings: Any = numba.config  # it fills itself from the environment, which mypy cannot see
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(_FOLDER or "")
    try:
        options: Any = {"nogil": True, "cache": _FOLDER is not None, "error_model": "numpy", "_nrt": False}
        compiled: Function = numba.njit(function, **options)
    finally:
        settings.CACHE_DIR = before  # another package keeps its kernels in another folder
    KERNELS[f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"] = compiled
    return compiled
