"""The places of texts in one cache, and the pieces of prompts that they hold.

A prompt is read in pieces of `PIECE` tokens, which begin at multiples of it; the last one may be shorter. So every bit
of its keys and values follows from the prompt alone, and two prompts that begin with the same pieces have the same keys
and values there: such a piece is read once, and then copied as long as a place holds it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from minigrad.nn.cache import KeyValueCache
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout

PIECE = 128
"""Tokens of a piece: a small model reads at half the speed of 512 at once, but other texts wait less."""


class Beginnings:
    """The hashes of all beginnings of a prompt: ``beginnings[stop]`` identifies the piece that ends there.

    Each is computed once, although a prompt that waits to be read needs it in every turn.
    """

    def __init__(self, prompt: Sequence[int]) -> None:
        self._prompt, self._known = np.array(prompt, np.int64), dict[int, bytes]()

    def __len__(self) -> int:
        """Return the number of tokens of the prompt."""
        return len(self._prompt)

    def __getitem__(self, stop: int) -> bytes:
        """Return the hash of the first `stop` tokens."""
        if stop not in self._known:
            self._known[stop] = hashlib.blake2b(self._prompt[:stop].tobytes(), digest_size=32).digest()
        return self._known[stop]


class Places:
    """A cache with `count` places of `capacity` tokens; each holds a text or is free."""

    def __init__(self, model: LanguageModel, count: int, capacity: int, piece: int = PIECE) -> None:
        self.cache, self.capacity, self.piece = model.new_cache(count, capacity), capacity, piece
        self._free = deque(range(count))  # first the place that has been free for the longest time
        self._held = [set[bytes]() for _ in range(count)]  # the hashes of the pieces that each place holds
        self.copies = type(self.cache) is KeyValueCache  # of a subclass, tokens may leave more than keys and values

    @property
    def num_free(self) -> int:
        """The number of free places."""
        return len(self._free)

    def take(self, prompt: Beginnings | None = None) -> int:
        """Return a place, now empty; of the pieces that it held, those of `prompt` can still be copied."""
        place = self._free.popleft()
        if prompt is None:
            self._held[place].clear()
        elif self._held[place]:
            stops = [*range(self.piece, len(prompt), self.piece), len(prompt) - 1]  # the last token is in no piece
            self._held[place] &= {prompt[stop] for stop in stops}
        lengths = self.cache.lengths.copy()
        lengths[place] = 0
        self.cache.truncate(lengths)
        return place

    def leave(self, place: int) -> None:
        """Free a place; the pieces that it holds can be copied until it is taken for another prompt."""
        self._free.append(place)

    def layout(self, places: Sequence[int], counts: ArrayLike = 1) -> Layout:
        """Return the layout of a pass that gives each of these places as many tokens, or its number of them."""
        lengths = np.zeros(self.cache.batch_size, np.int64)
        lengths[list(places)] = counts
        return Layout.packed(lengths)

    def hold(self, place: int, piece: bytes) -> None:
        """Note that a place holds a piece, and all before it."""
        if self.copies:
            self._held[place].add(piece)

    def copy(self, place: int, piece: bytes, start: int, stop: int) -> bool:
        """Copy a piece, from `start` to `stop` of its prompt, from a place that holds it; return whether one does."""
        holders = [each for each, held in enumerate(self._held) if piece in held]
        if not holders:
            return False
        if place not in holders:  # it may still hold the piece of an earlier text
            self.cache.copy_tokens(holders[0], place, start, stop)
            self._held[place].add(piece)
        self.cache.advance(self.layout([place], stop - start).lengths)
        return True
