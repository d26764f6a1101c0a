r"""Measure the benefit of a longer context.

Predict tokens from a whole view, and again from its newer half. With the mean loss $L$ in nats and the mean entropy $H$
of the predictions,

    need = ((1 - L / L_half) + (1 - H / H_half)) / 2.

The need is 0 if the farther half does not help. It falls as the view grows, because near tokens help most. Both passes
predict the same tokens, so their difference is far more exact than the loss itself.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad import ops
from minigrad.autograd import observers
from minigrad.autograd.graph import no_grad
from minigrad.autograd.observers import Observer, Result
from minigrad.autograd.tensor import Tensor
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.nn.module import in_evaluation
from minigrad.ops.attention import relative_entropy
from minigrad.typing import Array

_MOST_TOKENS = 1_024  # read in whole views; their newer halves are read again, half as many tokens more
_CHUNK = 128  # rows of logits in memory at a time


class Signals(NamedTuple):
    """The measurements in sequences that fill more than half of a view; the tokens of their second halves count.

    `diversity` is how far attention is spread out, from 0 (one key) to 1 (all keys alike), the mean over tokens, heads
    and layers. The first token of a second half does not count: it sees one key if the farther half is hidden. NaN if
    attention cannot be measured. `diversity_gain` is what it loses if the farther half is hidden, in layers that can
    be measured in both passes. A layer cannot be measured where it merges tokens.
    """

    need: float
    perplexity: float
    entropy: float  # of the predictions, in nats
    diversity: float
    diversity_gain: float
    tokens: int


def measure(model: LanguageModel, tokens: Array, targets: Array, layout: Layout, view: int) -> Signals | None:
    """Measure what the farther half of a view of `view` tokens tells; None if no sequence is longer than that half.

    The weights do not change, and dropout is off. Only the first sequences are read, up to about a thousand tokens.
    Shapes: tokens and targets (rows,), packed as in `layout`.
    """
    starts, lengths = layout.offsets[:-1], layout.lengths
    long = np.flatnonzero((lengths > view // 2) & (lengths > 1))
    long = long[: max(1, int(np.searchsorted(np.cumsum(lengths[long]), _MOST_TOKENS, "right")))]
    if not len(long):
        return None
    starts, lengths = starts[long], lengths[long]
    hidden = lengths // 2
    whole, half = Layout.packed(lengths), Layout.packed(lengths - hidden)
    rows = np.repeat(starts, lengths) + whole.positions
    seconds = rows[_after(hidden, lengths)]
    wanted = targets[seconds]
    with in_evaluation(model):
        full = _predictions(model, tokens[rows], whole, hidden, wanted)
        near = _predictions(model, tokens[seconds], half, np.zeros_like(hidden), wanted)
    need = (_gain(full.loss, near.loss) + _gain(full.entropy, near.entropy)) / 2
    perplexity = math.exp(min(full.loss, 700.0))
    diversity, gain = _mean_of_known(full.diversity), _mean_of_known(full.diversity - near.diversity)
    return Signals(need, perplexity, full.entropy, diversity, gain, len(wanted))


def _gain(whole: float, half: float) -> float:
    return 1 - whole / half if half > 0 else 0.0


def _mean_of_known(values: Array) -> float:
    """Return the mean of the values that are not NaN, or NaN if all are."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _after(skipped: Array, lengths: Array) -> Array:
    """Whether a row comes after the first rows of its sequence, `skipped` in number.

    Shapes: skipped and lengths (sequences,) -> (rows,).
    """
    after: Array = Layout.packed(lengths).positions >= np.repeat(skipped, lengths)
    return after


class _Predictions(NamedTuple):
    """Means over the tokens that count; loss and entropy in nats."""

    loss: float
    entropy: float
    diversity: Array  # of each operation of attention in turn; NaN if it cannot be measured


def _predictions(model: LanguageModel, tokens: Array, layout: Layout, skipped: Array, wanted: Array) -> _Predictions:
    """Predict the tokens `wanted` at the rows after the `skipped` first ones of each sequence."""
    spread = _Spread(skipped + 1, layout.lengths)
    with no_grad(), observers.watch(spread):
        rows = model.hidden(Tensor(tokens), layout).data[_after(skipped, layout.lengths)]
    losses, entropies = np.empty(len(rows)), np.empty(len(rows))
    for first in range(0, len(rows), _CHUNK):
        part = slice(first, first + _CHUNK)
        with no_grad():
            log_p = ops.log_softmax(model.logits(Tensor(rows[part]))).data  # (chunk, V)
        losses[part] = -log_p[np.arange(len(log_p)), wanted[part]]
        entropies[part] = -(np.exp(log_p) * log_p).sum(axis=1)
    return _Predictions(float(losses.mean()), float(entropies.mean()), np.array(spread.found))


class _Spread(Observer):
    """An observer that measures in every operation of attention of its thread how far it is spread out.

    The queries after the `skipped` first ones of each sequence count. `found` is the mean over them in each operation,
    or NaN if there is none, or if the rows are not the tokens of sequences of these `lengths`, but groups of tokens.
    """

    def __init__(self, skipped: Array, lengths: Array) -> None:
        self._counts, self._lengths, self._thread = _after(skipped, lengths), lengths, threading.get_ident()
        self.found: list[float] = []

    @contextlib.contextmanager
    def forward(
        self, name: str, arrays: Sequence[Array], options: dict[str, Any]
    ) -> Iterator[Callable[[Result], Result]]:
        """Measure attention to single tokens: all of them, a window, or those among which sparse attention chooses."""
        if name in ("attention", "sparse_attention") and threading.get_ident() == self._thread:
            q, k, offsets = arrays[0], arrays[1], options["offsets"]
            ranges = np.stack([offsets[:-1], offsets[1:]], axis=1)
            first = options.get("first_visible")
            first = np.zeros(len(q), np.int64) if first is None else first
            found = math.nan
            if self._counts.any() and np.array_equal(np.diff(offsets), self._lengths):
                entropy = relative_entropy(q, k, offsets=offsets, key_ranges=ranges, first_visible=first)
                found = float(entropy[self._counts].mean(dtype=np.float64))
            self.found.append(found)
        yield lambda result: result
