"""Write arrays while training goes on.

Training pauses only for as long as it takes to copy the weights and the moments. The copy is written, so the file does
not depend on how far training has come meanwhile. One write takes place at a time: the next one waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

import numpy as np

from minigrad.kernels.threads import over_rows
from minigrad.typing import Array, Arrays


class Writer:
    """A thread that writes, and the memory of the copies, which is used again; its block ends after the last write."""

    def __init__(self) -> None:
        self._copies: dict[str, Array] = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Wait for the last write; its error is raised, unless another one ends the block."""
        self.join()
        if kind is None:
            self.check()

    def begin(self, arrays: Arrays, write: Callable[[Arrays], object]) -> None:
        """Wait for an earlier write, whose error is raised, copy the arrays, and begin to `write` the copies."""
        self.wait()
        copies = self._copied(arrays)

        def work() -> None:
            try:
                write(copies)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=work, name="minigrad-writer", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last write has ended; raises its error if it failed."""
        self.join()
        self.check()

    def check(self) -> None:
        """Raise the error of a write that has failed; do not wait for one that is going on."""
        if (error := self._error) is not None:  # cleared only if seen: the thread may store one at any moment
            self._error = None
            raise error

    def join(self) -> None:
        """Wait until the last write has ended, whatever became of it."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _copied(self, arrays: Arrays) -> Arrays:
        """Return copies of the arrays, in the memory of earlier copies where it fits."""
        for name, array in arrays.items():
            known = self._copies.get(name)
            if known is None or (known.shape, known.dtype) != (array.shape, array.dtype):
                self._copies[name] = np.empty_like(array, order="C")
        pairs = [(self._copies[name], array) for name, array in arrays.items()]

        def copy_some(start: int, stop: int) -> None:
            for copy, array in pairs[start:stop]:
                np.copyto(copy, array)

        over_rows(copy_some, len(pairs), sum(array.size for array in arrays.values()) // max(len(pairs), 1))
        return {name: self._copies[name] for name in arrays}
