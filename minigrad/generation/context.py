"""What the model has read: texts of any lengths, and a cache of their newest part."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.graph import no_grad
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.nn.module import in_evaluation
from minigrad.programs.decoder import Decoder
from minigrad.typing import Array

_MOST_AGAIN = 8  # unread tokens that `mark` leaves to the next pass
_MOST_ROWS = 2048  # tokens of all texts in one pass: more would take more memory, and no less time per token


class View(Protocol):
    """How much of one text the model sees; it may depend on what the model reads."""

    @property
    def limit(self) -> int:
        """The number of tokens that the cache may hold."""

    def read(self, model: LanguageModel, text: Sequence[int], held: int) -> None:
        """Look at a text before its new tokens are read; the model sees the newest `held` ones."""


@dataclass(frozen=True)
class WholeView:
    """The whole context of a model."""

    limit: int

    def read(self, model: LanguageModel, text: Sequence[int], held: int) -> None:
        """Do nothing."""


@dataclass
class Row:
    """One text; the cache holds its tokens from `start` to `read`."""

    tokens: list[int]
    view: View
    start: int
    read: int
    slot: int  # its number in the cache, which may hold other texts too

    @property
    def unread(self) -> int:
        """The number of tokens that the model has not read."""
        return len(self.tokens) - self.read


class Context:
    """Texts that grow, and a cache, so that the model reads each token once.

    The model sees at most `context_length` tokens, or the limits of `views`, one for each text. A text that begins with
    more is read from its last ones. A text that outgrows its limit is read again from its last half, so that the next
    half costs no more than before.
    """

    def __init__(
        self, decoder: Decoder, texts: Sequence[Sequence[int]], capacity: int, views: Sequence[View] = ()
    ) -> None:
        """Take texts of at least one token, and the number of tokens to which the longest may grow."""
        self.decoder, self.model = decoder, decoder.model
        most = self.model.config.context_length
        self.rows = list[Row]()
        for slot, (text, view) in enumerate(zip(texts, views or [WholeView(most)] * len(texts), strict=True)):
            start = max(len(text) - view.limit, 0)
            self.rows.append(Row(list(text), view, start, start, slot))
        memory = min(most, max(capacity, *map(len, texts)))
        self._cache: KeyValueCache = self.model.new_cache(len(texts), memory)

    @property
    def limits(self) -> list[int]:
        """How many tokens of each text the model may see."""
        return [row.view.limit for row in self.rows]

    @property
    def room(self) -> int:
        """The number of tokens that fit before one of the texts outgrows its limit."""
        return min(row.view.limit - (len(row.tokens) - row.start) for row in self.rows)

    def append(self, tokens: Sequence[int]) -> None:
        """Add one token to each text."""
        for row, token in zip(self.rows, tokens, strict=True):
            row.tokens.append(token)

    def logits(self, last: int = 1) -> Array:
        """Read the unread tokens; return the logits after each of the `last` ones, (texts, last, V)."""
        for row in self.rows:
            row.view.read(self.model, row.tokens, len(row.tokens) - row.start)
        self._make_room()
        unread = [row.unread for row in self.rows]
        begins = all(row.read == row.start for row in self.rows)
        # The first pass reads whole prompts. Later the decoder takes the last token, after the others are read.
        if sum(unread) > _MOST_ROWS or (last == 1 < max(unread) and not begins):
            self._read_ahead(last)
        return self._read([row.unread for row in self.rows], last)

    def select(self, numbers: Sequence[int]) -> None:
        """Keep these texts, by their numbers: fewer of them, or one of them several times.

        A text that is left out stays in the cache until half of the texts there are left out. There it costs memory,
        and texts that end one by one do not each cost a copy of the cache.
        """
        if list(numbers) == list(range(len(self.rows))):
            return
        chosen = [self.rows[number] for number in numbers]  # the samples of one prompt go separate ways
        self.rows = [replace(row, tokens=row.tokens.copy(), view=copy.deepcopy(row.view)) for row in chosen]
        slots = [row.slot for row in self.rows]
        is_rising = all(before < after for before, after in itertools.pairwise(slots))
        if not is_rising or 2 * len(slots) <= self._cache.batch_size:
            self._cache = self._cache.select(slots)
            for slot, row in enumerate(self.rows):
                row.slot = slot

    def mark(self) -> None:
        """Prepare for `truncate` to any lengths at or above the current ones, while there is room."""
        self._make_room()
        if any(row.unread > _MOST_AGAIN for row in self.rows):
            self._read_ahead(1)
        self._cache.mark()

    def truncate(self, lengths: ArrayLike) -> None:
        """Cut each text to its number in `lengths`, or all texts to one number, whether the tokens were read or not."""
        for row, length in zip(self.rows, np.broadcast_to(lengths, len(self.rows)), strict=True):
            del row.tokens[length:]
            row.read = min(row.read, len(row.tokens))
        self._cut_cache()

    def _make_room(self) -> None:
        """Let texts that have outgrown their limits begin again from their last half."""
        outgrown = [row for row in self.rows if len(row.tokens) - row.start > row.view.limit]
        for row in outgrown:
            row.start = row.read = len(row.tokens) - max(1, row.view.limit // 2)
        if outgrown:
            self._cut_cache()

    def _cut_cache(self) -> None:
        """Remove tokens that the rows no longer count as read; some caches must remove more."""
        lengths = self._cache.lengths.copy()
        for row in self.rows:
            lengths[row.slot] = row.read - row.start
        self._cache.truncate(lengths)
        for row in self.rows:
            row.read = row.start + int(self._cache.lengths[row.slot])

    def _read_ahead(self, kept: int) -> None:
        """Read all but the newest `kept` tokens of each text, in parts, without logits."""
        while any(left := [max(row.unread - kept, 0) for row in self.rows]):
            share = max(1, _MOST_ROWS // sum(count > 0 for count in left))
            self._read([min(count, share) for count in left], last=0)

    def _read(self, counts: Sequence[int], last: int) -> Array:
        """Read these numbers of tokens; return the logits after each of the `last` ones, (texts, last, V).

        Dropout is off here and in `Decoder.step`, not from one token to the next: between two of them the model is the
        caller's, who may train it or write another text.
        """
        lengths, ids = np.zeros(self._cache.batch_size, np.int64), list[int]()
        for row, count in zip(self.rows, counts, strict=True):
            lengths[row.slot] = count
            ids += row.tokens[row.read : row.read + count]
        layout, tokens = Layout.packed(lengths), np.array(ids, np.int64)
        if last == 1 and max(counts) == 1:
            logits = self.decoder.step(tokens, self._cache, layout)[:, None]
        else:
            with in_evaluation(self.model), no_grad():
                logits = self.model(tokens, cache=self._cache, layout=layout, last=last).data
        for row, count in zip(self.rows, counts, strict=True):
            row.read += count
        return logits
