"""What the model has read: texts of any lengths, and a cache of their newest part."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.graph import no_grad
from minigrad.nn.cache import Cache
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.programs.decoder import Decoder
from minigrad.typing import Array

_MOST_AGAIN = 8  # tokens that are read again rather than in a pass of their own, after a cache went back to its mark
_MOST_ROWS = 2048  # tokens of all texts that are read in one pass: more take memory, and no less time for each


class View(Protocol):
    """How much of one text the model sees; it may follow from what the model reads."""

    @property
    def limit(self) -> int:
        """The number of tokens that the cache may hold."""

    def read(self, model: LanguageModel, text: Sequence[int], held: int) -> None:
        """Look at a text before its new tokens are read; the model sees the newest `held` ones."""


class Context:
    """Texts that grow, and the cache with which the model reads only the new tokens of each.

    A model reads at most `context_length` tokens. A text that begins with more is read from the last of them on; a text
    that outgrows the context is read again from its last half on, so the next half context costs no more than before.
    The limits of `views`, one for each text, take the place of `context_length`.
    """

    def __init__(
        self,
        decoder: Decoder,
        texts: Sequence[Sequence[int]],
        capacity: int,
        views: Sequence[View] = (),
    ) -> None:
        """Take texts, at least one token each, and the number of tokens that the longest may grow to."""
        self.decoder, self.model, self.views = decoder, decoder.model, list(views)
        self.texts = [list(text) for text in texts]
        self._starts = np.maximum(self.lengths - self.limits, 0)  # of each text, the first token that the cache holds
        memory = min(self.model.config.context_length, max(capacity, int(self.lengths.max())))
        self._cache: Cache = self.model.new_cache(len(texts), memory)
        self._places = np.arange(len(texts))  # of each text, its number in the cache, which may hold others too

    @property
    def lengths(self) -> Array:
        """The number of tokens of each text, (texts,)."""
        return np.array([len(text) for text in self.texts])

    @property
    def limits(self) -> Array:
        """How many tokens of each text the cache may hold, (texts,)."""
        most = [view.limit for view in self.views]
        return np.array(most or [self.model.config.context_length] * len(self.texts))

    @property
    def room(self) -> int:
        """The number of tokens that fit before one of the texts outgrows the context."""
        return int((self.limits - self.lengths + self._starts).min())

    def append(self, tokens: Sequence[int]) -> None:
        """Add one token to each text."""
        for text, token in zip(self.texts, tokens, strict=True):
            text.append(token)

    def logits(self, last: int = 1) -> Array:
        """Read the tokens that are new; return the logits after each of the `last` ones, (texts, last, V)."""
        for view, text, start in zip(self.views, self.texts, self._starts, strict=False):
            view.read(self.model, text, len(text) - int(start))
        self._make_room()
        new = self._new
        if new.max() == last == 1:  # the usual case costs as little as it can
            return self._read(new, last)
        begins = not self._held.any()
        if new.sum() > _MOST_ROWS or (last == 1 and not begins):
            self._read_ahead(last)
        return self._read(self._new, last)

    def select(self, numbers: Sequence[int]) -> None:
        """Keep these texts, by their numbers: fewer of them, or one of them several times.

        A text that is left out stays in the cache, where it costs nothing but memory, until half of the texts there
        are left out: so texts that end one by one do not cost a copy of the cache each.
        """
        if list(numbers) == list(range(len(self.texts))):
            return
        self.texts = [self.texts[number].copy() for number in numbers]
        if self.views:  # the samples of one prompt go separate ways
            self.views = [copy.deepcopy(self.views[number]) for number in numbers]
        self._starts, self._places = self._starts[list(numbers)], self._places[list(numbers)]
        if (np.diff(self._places) <= 0).any() or 2 * len(numbers) <= self._cache.batch_size:
            self._cache = self._cache.select(self._places)
            self._places = np.arange(len(numbers))

    def mark(self) -> None:
        """Prepare for `truncate` to any lengths from the present ones on, as long as there is room."""
        self._make_room()
        if (self._new > _MOST_AGAIN).any():
            self._read_ahead(1)
        self._cache.mark()

    def truncate(self, lengths: ArrayLike) -> None:
        """Remove the tokens of each text after the first `lengths`, for each or one for all, read or not."""
        for text, length in zip(self.texts, np.broadcast_to(lengths, len(self.texts)), strict=True):
            del text[length:]
        self._cut(np.minimum(self.lengths - self._starts, self._held))

    @property
    def _held(self) -> Array:
        """How many tokens of each text the cache holds."""
        return self._cache.lengths[self._places]

    @property
    def _new(self) -> Array:
        """How many tokens of each text are still to be read."""
        return self.lengths - self._starts - self._held

    def _cut(self, held: Array) -> None:
        """Shorten the texts in the cache to these numbers of tokens."""
        lengths = self._cache.lengths.copy()
        lengths[self._places] = held
        self._cache.truncate(lengths)

    def _make_room(self) -> None:
        """Let texts that have outgrown the context begin again from their last half."""
        if (is_long := self.lengths - self._starts > self.limits).any():
            self._starts = np.where(is_long, self.lengths - np.maximum(1, self.limits // 2), self._starts)
            self._cut(np.where(is_long, 0, self._held))

    def _read_ahead(self, kept: int) -> None:
        """Read all but the newest `kept` tokens of each text, in parts, without logits."""
        while (left := np.maximum(self._new - kept, 0)).any():
            share = max(1, _MOST_ROWS // int(np.count_nonzero(left)))
            self._read(np.minimum(left, share), last=0)

    def _read(self, counts: Array, last: int) -> Array:
        """Read these numbers of further tokens; return the logits after each of the `last` ones, (texts, last, V)."""
        begun, lengths = self._starts + self._held, np.zeros(self._cache.batch_size, np.int64)
        lengths[self._places] = counts
        layout = Layout.packed(lengths)
        tokens = [text[a:b] for text, a, b in zip(self.texts, begun, begun + counts, strict=True)]
        ids = np.concatenate([np.array(part, np.int64) for part in tokens])
        if last == 1 and counts.max() == 1:
            return self.decoder.step(ids, self._cache, layout)[:, None]
        with no_grad():
            return self.model(ids, cache=self._cache, layout=layout, last=last).data
