"""The logits of the next token of each text, without a graph and in one call of one loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.graph import no_grad
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.decoding.machine import run
from minigrad.kernels.decoding.program import Heads, Texts
from minigrad.kernels.gemm.backend import rounds
from minigrad.nn.cache import Cache, KeyValueCache
from minigrad.nn.inputs import check_tokens
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.nn.programs import Program
from minigrad.typing import Array


class Decoder:
    """A model that continues texts, one token of each at a time.

    A family that describes its pass as a program is run by that program. Any other, and any while products are rounded
    to bfloat16, is called with its cache. The weights are those of the model now: make a new decoder after training it
    further.

    >>> import models
    >>> model = models.build("vidya-v2", size="nano", seed=0)
    >>> Decoder(model).step([5, 7], model.new_cache(batch_size=2)).shape
    (2, 4096)
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model, self._program, self._memory = model, Program(model.config.num_heads), np.empty((0, 0))
        rows = None if rounds(model.head().dtype) else model.write_program(self._program)
        self._logits = None if rows is None else self._program.head(model.tables()[-1], rows)
        self._table = self._program.table()

    @property
    def has_program(self) -> bool:
        """Whether the model is run by a program; else it is called."""
        return self._logits is not None

    def step(self, tokens: ArrayLike, cache: Cache, layout: Layout | None = None) -> Array:
        """Continue each text of the cache, or each text that has a row in a layout, with a token; return the next
        logits.

        Shapes: tokens (texts,) integers -> (texts, V).
        Raises InputError for ids out of range, or a cache that is full; ShapeError for more than one token of a text.
        """
        layout = layout or Layout.rectangular(np.size(tokens), 1)
        ids, layout = check_tokens(tokens, self.model.config.context_length, cache, layout)
        if layout.lengths.max(initial=0) > 1:
            raise ShapeError(f"a step continues a text with one token, not {layout.lengths.max()}")
        if self._logits is None or not isinstance(cache, KeyValueCache):
            with no_grad():
                logits: Array = self.model(ids, cache=cache, layout=layout).data
            return logits
        vocabulary, dtype = self.model.config.vocab_size, cache.keys.dtype
        if ids.size and (ids.min() < 0 or ids.max() >= vocabulary):
            raise InputError(f"a token is a number from 0 to {vocabulary - 1}; got {ids.min()} to {ids.max()}")
        if len(self._memory) < len(ids):
            self._memory = np.empty((len(ids), self._program.size), dtype)
        memory = self._memory[: len(ids)]
        places = np.flatnonzero(layout.lengths)
        stored = cache.keys, cache.values, cache.far_keys, cache.far_values, cache.sums
        texts = Texts(ids.astype(np.int64), layout.positions, places, *stored)
        run(self._table, self.model.config.norm_eps, memory, self._heads(cache), texts, self._program.num_weights)
        cache.advance(layout.lengths)
        return memory[:, self._logits.place : self._logits.place + self._logits.size].copy()

    def _heads(self, cache: KeyValueCache) -> Heads:
        """Return the sizes of the heads, and the angles of all positions that the cache has memory for."""
        config, angles, dtype = self.model.config, self._program.angles, cache.keys.dtype
        none, interleaved = np.empty((0, 0), dtype), angles is not None and angles.interleaved
        tables = (none, none) if angles is None else angles.tables(cache.max_length, dtype)
        sizes, patterns = (config.num_heads, config.num_kv_heads, config.head_dim), self._program.patterns
        return Heads(*sizes, np.array(patterns, np.float64), *tables, interleaved)
