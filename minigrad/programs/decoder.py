"""The logits of the next token of each text, without a graph and in one call of one loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.graph import no_grad
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.decoding.kept import Kept
from minigrad.kernels.decoding.machine import run
from minigrad.kernels.decoding.program import Texts
from minigrad.kernels.gemm.backend import rounds
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.inputs import check_tokens
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.nn.module import in_evaluation
from minigrad.programs.lower import program_of
from minigrad.typing import Array


class Decoder:
    """A model that continues texts, one token of each at a time.

    Its pass over one token is traced and run as a program. A model whose pass depends on the data is called with its
    cache instead, as is any model while products are rounded to bfloat16. Make a new decoder after weights were
    changed or replaced, or the precision was changed.

    >>> import models
    >>> model = models.build("vidya-v2", size="nano", seed=0)
    >>> Decoder(model).step([5, 7], model.new_cache(batch_size=2)).shape
    (2, 4096)
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._program = None if rounds(model.head().dtype) else program_of(model)
        self._table = np.array(self._program.steps if self._program else [], np.int64)
        self._memory = np.empty((0, self._program.size if self._program else 0), model.head().dtype)
        self._like = model.new_cache(1, 1) if self._program else None

    @property
    def has_program(self) -> bool:
        """Whether the model is run by a program; otherwise it is called."""
        return self._program is not None

    def step(self, tokens: ArrayLike, cache: KeyValueCache, layout: Layout | None = None) -> Array:
        """Continue each text of the cache, or each text that has a row in a layout, with a token; return the next
        logits.

        Shapes: tokens (texts,) integers -> (texts, V).
        Raises InputError for ids out of range, or a cache that is full; ShapeError for more than one token of a text,
        or the cache of another model.
        """
        given = layout or Layout.rectangular(np.size(tokens), 1)
        rows, layout = check_tokens(tokens, self.model.config.context_length, cache, given)
        if layout.lengths.max(initial=0) > 1:
            raise ShapeError(f"a step continues a text with one token, not {layout.lengths.max()}")
        if self._program is None or self._like is None:
            with in_evaluation(self.model), no_grad():  # as a program, which was traced so
                logits: Array = self.model(rows, cache=cache, layout=layout).data
            return logits
        if self._program.key_heads is not None:
            cache.check_heads((len(rows.data), *self._program.key_heads))
        cache.check_fits(len(self._program.patterns), self.model.head().dtype)
        cache.check_kind(self._like)
        ids, vocabulary, dtype = rows.data, self.model.config.vocab_size, cache.dtype
        if ids.size and (ids.min() < 0 or ids.max() >= vocabulary):
            raise InputError(f"a token is a number from 0 to {vocabulary - 1}; got {ids.min()} to {ids.max()}")
        if len(self._memory) < len(ids):
            self._memory = np.empty((len(ids), self._program.size), dtype)
        memory = self._memory[: len(ids)]
        places = np.flatnonzero(layout.lengths)
        texts = texts_of(cache, ids, layout.positions, places)
        heads = self._program.heads(cache.max_length, dtype)
        run(self._table, self._program.eps, memory, heads, texts, self._program.num_weights)
        cache.advance(layout.lengths)
        return memory[:, self._program.logits].copy()


def texts_of(cache: KeyValueCache, ids: Array, positions: Array, places: Array) -> Texts:
    """Return what a step of a program reads of each text.  Shapes: ids, positions and places (texts,)."""
    none, beside = cache.keys[:, :, :0], cache.beside()  # most caches have no means of blocks, and no sums
    far_keys, far_values = beside.get("far_keys", none), beside.get("far_values", none)
    kept = Kept.of(cache.keys), Kept.of(cache.values), Kept.of(far_keys), Kept.of(far_values)
    return Texts(ids.astype(np.int64), positions, places, *kept, beside.get("sums", np.zeros((0, 0, 0))))
