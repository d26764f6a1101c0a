"""What the model has read: texts of equal length, and a cache of their newest part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minigrad.autograd.graph import no_grad
from minigrad.nn.adaptive_context import AdaptiveContext
from minigrad.nn.cache import Cache
from minigrad.nn.context_signals import measure
from minigrad.nn.decoder import Decoder
from minigrad.nn.layout import Layout
from minigrad.typing import Array

ADAPT_EVERY = 32  # tokens, at least, between decisions on an adaptive context
_MOST_AGAIN = 8  # tokens that are read again rather than in a pass of their own, after a cache went back to its mark


class Context:
    """Texts of equal length that grow together, and the cache with which the model reads only what is new.

    A model reads at most `context_length` tokens. A text that begins with more is read from its last ones; a text that
    outgrows the context is read again from its last half on, so the next half context costs no more than before.
    With an `adaptive` context, that context takes the place of `context_length`: it is how much of a text is in the
    cache, which is all that a model of any family sees of it, whatever windows its layers have. What the farther half
    of the cache tells about the newest tokens is measured every now and then, and less or more is kept from then on.
    That is a function of one text, so there must be only one.
    """

    def __init__(
        self,
        decoder: Decoder,
        texts: Sequence[Sequence[int]],
        capacity: int,
        adaptive: AdaptiveContext | None = None,
    ) -> None:
        """Take texts, at least one token each, and the number of tokens that they may grow to."""
        self.decoder, self.model, self.adaptive = decoder, decoder.model, adaptive
        self.texts = [list(text) for text in texts]
        self._decided = self.length  # the length of the text at the last decision
        self._start = max(0, self.length - self.limit)  # the first token that the cache holds
        most = self.model.config.context_length
        self._cache: Cache = self.model.new_cache(len(texts), min(most, max(capacity, self.length)))

    @property
    def length(self) -> int:
        """The number of tokens of each text."""
        return len(self.texts[0])

    @property
    def limit(self) -> int:
        """The number of tokens that the cache may hold."""
        return self.adaptive.current if self.adaptive else self.model.config.context_length

    @property
    def room(self) -> int:
        """The number of tokens that fit before the texts outgrow the context."""
        return self.limit - (self.length - self._start)

    def append(self, tokens: Sequence[int]) -> None:
        """Add one token to each text."""
        for text, token in zip(self.texts, tokens, strict=True):
            text.append(token)

    def logits(self, last: int = 1) -> Array:
        """Read the tokens that are new; return the logits after each of the `last` ones, (texts, last, V)."""
        if self.adaptive:
            self._adapt(self.adaptive)
        self._make_room()
        return self._read(self.length, last)

    def select(self, numbers: Sequence[int]) -> None:
        """Keep these texts, by their numbers: fewer of them, or one of them several times."""
        if list(numbers) != list(range(len(self.texts))):
            self.texts = [self.texts[number].copy() for number in numbers]
            self._cache = self._cache.select(numbers)

    def mark(self) -> None:
        """Prepare for `truncate` to any length from the present one on, as long as there is room."""
        self._make_room()
        if self.length - self._start - self._cache.length > _MOST_AGAIN:
            self._read(self.length - 1, last=0)
        self._cache.mark()

    def truncate(self, length: int) -> None:
        """Remove the tokens of each text after the first `length`, read or not."""
        for text in self.texts:
            del text[length:]
        if (held := length - self._start) < self._cache.length:
            self._cache.truncate(held)

    def _read(self, stop: int, last: int) -> Array:
        """Read the tokens up to `stop` that are new; return the logits after each of the `last` ones."""
        begin = self._start + self._cache.length
        if begin and last == stop - begin == 1:
            return self.decoder.step([text[begin] for text in self.texts], self._cache)[:, None]
        with no_grad():
            return self.model(np.array([text[begin:stop] for text in self.texts]), cache=self._cache, last=last).data

    def _adapt(self, context: AdaptiveContext) -> None:
        """Measure what the farther half of the view tells, if it is nearly full and some tokens are new; decide."""
        held = min(self.length - self._start, self.model.config.context_length + 1)
        if self.length < self._decided + ADAPT_EVERY or 4 * held < 3 * context.current:
            return
        self._decided = self.length
        seen = np.array(self.texts[0][-held:])
        if signals := measure(self.model, seen[:-1], seen[1:], Layout.packed([held - 1]), held - 1):
            context.decide(self.length, signals)

    def _make_room(self) -> None:
        """Let texts that have outgrown the context begin again from their last half."""
        if self.room < 0:
            self._start = self.length - max(1, self.limit // 2)
            self._cache = self.model.new_cache(len(self.texts), self.model.config.context_length)
