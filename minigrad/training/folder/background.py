"""Checkpoints are written in the background, from a snapshot, while training goes on.

Training pauses only for as long as it takes to copy the weights and the moments. The copy is written, so the file does
not depend on how far training has come meanwhile. One write takes place at a time: the next one waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Self

import numpy as np

from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

Arrays = dict[str, Array]
Write = Callable[[Arrays], object]
"""Writes files from copies of arrays; raises RunError if it cannot."""


class Writer:
    """A thread that writes, and the memory of the copies, which is used again for every snapshot.

    Inside its block, a write that failed is reported by `check`, and the block does not end before the last write has.
    """

    def __init__(self) -> None:
        self._copies: Arrays = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Wait for the last write; its error is raised, unless another one ends the block."""
        self.join()
        if kind is None:
            self.check()

    def begin(self, arrays: Mapping[str, Array], write: Write) -> None:
        """Wait for an earlier write, copy the arrays, and begin to `write` the copies.

        Raises the error of the earlier write if it failed.
        """
        self.wait()
        copies = self._copied(arrays)
        self._thread = threading.Thread(target=self._run, args=(write, copies), name="minigrad-writer", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last write has ended; raises its error if it failed."""
        self.join()
        self.check()

    def check(self) -> None:
        """Raise the error of a write that has failed; do not wait for one that is going on."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def join(self) -> None:
        """Wait until the last write has ended, whatever became of it."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, write: Write, copies: Arrays) -> None:
        try:
            write(copies)
        except BaseException as error:
            self._error = error

    def _copied(self, arrays: Mapping[str, Array]) -> Arrays:
        """Return copies of the arrays, which lie in the memory of earlier copies where there are some."""
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
