"""The figure of xz for the text of a run, computed beside the training.

A thread of its own compresses while the first steps are taken, so that it has ended long before a budget of minutes
has. No step depends on it.
"""

from __future__ import annotations

import threading

from minigrad.data import xz
from minigrad.system.terminal import phase
from minigrad.system.units import format_seconds
from minigrad.training.plan import Plan


class Baseline:
    """The bits per byte to which xz compresses the held-out text of a plan, as soon as they are known."""

    def __init__(self, plan: Plan) -> None:
        """Start to compress, unless the minutes of the run are too few for this text."""
        self._plan, self._limit = plan, plan.xz_time_limit()
        self._figure: float | None = None
        self._reason = plan.too_long_for_xz()
        self._thread = threading.Thread(target=self._compress, name="xz", daemon=True)
        if not self._reason and plan.world.rank == 0:
            self._thread.start()

    def _compress(self) -> None:
        try:
            train, held_out = self._plan.text.corpus.split()
            self._figure = xz.xz_bits_per_byte(train, held_out, seconds=self._limit)
            self._reason = "" if self._figure is not None else "this Python lacks lzma"
        except TimeoutError:
            self._reason = f"it did not end within {format_seconds(self._limit)}"
        except MemoryError:
            self._reason = "there was too little memory for it"

    def wait(self) -> tuple[float | None, str]:
        """Return the bits per byte, or None and the reason; wait for the compression if it has not ended."""
        if self._thread.is_alive():
            with phase("compressing the same text with xz"):
                self._thread.join()
        return self._figure, self._reason
