"""The figures of xz and of counting for the text of a run, computed beside the training.

A thread of its own compresses and counts while the first steps are taken, so that it has ended long before a budget of
minutes has. No step depends on it.
"""

from __future__ import annotations

import itertools
import threading
from typing import NamedTuple

from minigrad.data import ngram, xz
from minigrad.system.terminal import phase
from minigrad.system.units import format_seconds
from minigrad.training.planning.plan import Plan

ORDER = 6  # of the n-gram model: the best on the default text (benchmarks/ngram.py)
_COUNTED = 1 << 23  # bytes of training text that are counted; of a longer text, every n-th document
_COUNTING_SHARE = 0.05  # the part of the minutes that counting may take


class Baselines(NamedTuple):
    """Bits per byte of the validation text, or None; and the reason why there is no figure of xz."""

    xz: float | None
    no_xz: str
    ngram: float | None


class Baseline:
    """The bits per byte that xz and counts of bytes need for validation text, as soon as they are known."""

    def __init__(self, plan: Plan) -> None:
        """Start to compress and to count, unless the minutes of the run are too few for this text."""
        self._plan, self._limit = plan, plan.xz_time_limit()
        self._xz: float | None = None
        self._ngram: float | None = None
        self._reason = plan.too_long_for_xz()
        self._thread = threading.Thread(target=self._work, name="baselines", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        if not self._reason:
            self._compress()
        minutes, text = self._plan.settings.minutes, self._plan.text
        needed = ngram.ngram_seconds(min(text.train.num_bytes, _COUNTED), text.validation.num_bytes)
        if minutes is None or needed <= _COUNTING_SHARE * 60 * minutes:
            self._ngram = self._count()

    def _compress(self) -> None:
        try:
            parts = self._plan.text.corpus.split()
            self._xz = xz.xz_bits_per_byte(parts.train, parts.validation, seconds=self._limit)
            self._reason = "" if self._xz is not None else "this Python lacks lzma"
        except TimeoutError:
            self._reason = f"it did not end within {format_seconds(self._limit)}"
        except MemoryError:
            self._reason = "there was too little memory for it"

    def _count(self) -> float:
        parts = self._plan.text.corpus.split()
        every = -(-self._plan.text.train.num_bytes // _COUNTED)
        return ngram.bits_per_byte(itertools.islice(parts.train, 0, None, max(every, 1)), parts.validation, ORDER)

    def wait(self) -> Baselines:
        """Return the figures; wait for them if they are not ready."""
        if self._thread.is_alive():
            with phase("compressing the same text with xz"):
                self._thread.join()
        return Baselines(self._xz, self._reason, self._ngram)
