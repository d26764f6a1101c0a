"""The figures of two rivals for the text of a run: the compressor xz, and counts of bytes. Computed after training."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from minigrad.evaluate import ngram, xz
from minigrad.system.terminal import phase
from minigrad.training.planning.plan import Plan


class Baselines(NamedTuple):
    """Bits per byte of the validation text. A rival that did not run has None; `no_xz` says why xz did not."""

    xz: float | None
    no_xz: str
    ngram: float | None


def baselines(plan: Plan) -> Baselines:
    """Compress and count the text of a run, unless its minutes are too few. Of a long text, a part is read."""
    if reason := plan.too_long_for_rivals():
        return Baselines(None, reason, None)
    parts = plan.text.corpus.split()
    with phase("compressing the same text with xz, and counting its bytes"):
        compressed = xz.xz_bits_per_byte(parts.train, parts.validation)
        every = max(1, -(-plan.text.train.num_bytes // xz.MOST_BYTES))
        counted = ngram.bits_per_byte(itertools.islice(parts.train, 0, None, every), parts.validation, ngram.ORDER)
    return Baselines(compressed, "" if compressed is not None else "this Python lacks lzma", counted)
