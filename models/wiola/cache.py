"""The cache of Wiola: keys, values, running sums of layers, and the newest token of merging layers."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn.cache import Cache, refuse_gradient
from minigrad.typing import Array
from models.wiola.config import WiolaConfig


@dataclass(frozen=True)
class Pending:
    """The state of a merging layer for the newest token of each sequence, and whether it may still merge with the next.

    Shapes, with S sequences: rows (S, C) after the norm, keys and values (S, G, D) before rotation, outputs (S, C),
    open (S,).
    """

    rows: Array
    keys: Array
    values: Array
    outputs: Array
    open: Array

    @classmethod
    def empty(cls, config: WiolaConfig, batch_size: int, dtype: DTypeLike) -> Pending:
        """Return the state before the first token."""
        rows, heads = (batch_size, config.width), (batch_size, config.num_kv_heads, config.head_dim)
        return cls(
            rows=np.zeros(rows, dtype),
            keys=np.zeros(heads, dtype),
            values=np.zeros(heads, dtype),
            outputs=np.zeros(rows, dtype),
            open=np.zeros(batch_size, bool),
        )

    def select(self, sequences: Sequence[int]) -> Pending:
        """Return a copy of the state of these sequences."""
        return Pending(**{name: array[list(sequences)] for name, array in vars(self).items()})


class Mark(NamedTuple):
    """What the cache held when it was marked, besides the keys and values, which later tokens do not change."""

    length: int
    filled: Array
    sums: Array
    pending: dict[int, Pending]


class WiolaCache(Cache):
    """The state of every layer.

    A merging layer stores fewer keys than there are tokens, and their number differs between sequences. Shapes: keys
    and values (layers, batch, max_length, G, D), of which `filled` (layers, batch) are in use; sums (layers, batch, C)
    in float64, because a running sum in fewer bits stops growing.
    """

    def __init__(self, config: WiolaConfig, batch_size: int, max_length: int, dtype: DTypeLike = "float32") -> None:
        super().__init__(batch_size, max_length)
        shape = (config.num_layers, batch_size, max_length, config.num_kv_heads, config.head_dim)
        self.keys, self.values = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.filled = np.zeros((config.num_layers, batch_size), np.int64)
        self.sums = np.zeros((config.num_layers, batch_size, config.width))
        merging = config.merging_layers if config.atm_at_generation else []
        self.pending = {layer: Pending.empty(config, batch_size, dtype) for layer in merging}
        self._mark: Mark | None = None

    @property
    def counts(self) -> Array:
        """The number of tokens of each sequence, (batch,)."""
        return np.full(self.batch_size, self.length)

    def arrays(self) -> Iterable[Array]:
        """Return keys, values, sums and the state of merging layers."""
        pending = [array for each in self.pending.values() for array in vars(each).values()]
        return self.keys, self.values, self.filled, self.sums, *pending

    def select(self, sequences: Sequence[int]) -> Self:
        """Return a cache of these sequences, by their numbers: fewer of them, or one of them several times."""
        chosen, numbers = copy.copy(self), list(sequences)
        chosen.batch_size, chosen._mark = len(numbers), None
        chosen.filled, chosen.sums = self.filled[:, numbers], self.sums[:, numbers]
        chosen.pending = {layer: pending.select(numbers) for layer, pending in self.pending.items()}
        chosen.keys, chosen.values = (
            np.zeros((len(memory), len(numbers), *memory.shape[2:]), memory.dtype)
            for memory in (self.keys, self.values)
        )
        in_use = slice(self.filled.max(initial=0))
        for new, old in ((chosen.keys, self.keys), (chosen.values, self.values)):
            new[:, :, in_use] = old[:, numbers, in_use]
        return chosen

    def mark(self) -> None:
        """Remember the present state: `truncate` returns to it, since sums and merges cannot be undone one by one."""
        everyone = range(self.batch_size)
        pending = {layer: each.select(everyone) for layer, each in self.pending.items()}
        self._mark = Mark(self.length, self.filled.copy(), self.sums.copy(), pending)

    def truncate(self, length: int) -> None:
        """Return to the last mark, unless `length` is the number of all tokens."""
        if length == self.length:
            return
        if self._mark is None or not self._mark.length <= length <= self.length:
            held = "no mark" if self._mark is None else f"a mark at {self._mark.length}"
            raise InputError(f"a cache of {self.length} tokens with {held} cannot be cut to {length}")
        mark = self._mark
        self.length, self.filled, self.sums, self.pending = mark.length, mark.filled, mark.sums, mark.pending
        self.mark()

    def append(self, layer: int, k: Tensor, v: Tensor, offsets: Array) -> tuple[Tensor, Tensor, Array]:
        """Store new keys and values (rows, G, D) of one layer; those of sequence s are rows offsets[s]:offsets[s + 1].

        The result is (keys, values, key_ranges): all keys and values of the layer (batch * max_length, G, D), which are
        not copied, and the range of filled rows of each sequence. Their gradient is refused.
        """
        filled = self.filled[layer]
        for sequence, (start, stop) in enumerate(itertools.pairwise(offsets)):
            free = slice(filled[sequence], filled[sequence] + stop - start)
            self.keys[layer, sequence, free] = k.data[start:stop]
            self.values[layer, sequence, free] = v.data[start:stop]
        filled += np.diff(offsets)
        first = np.arange(self.batch_size) * self.max_length
        keys, values = (memory[layer].reshape(-1, *memory.shape[3:]) for memory in (self.keys, self.values))
        ranges = np.stack([first, first + filled], axis=1)
        return refuse_gradient(Tensor(keys), k), refuse_gradient(Tensor(values), v), ranges

    def add_to_sums(self, layer: int, x: Tensor) -> None:
        """Add the output rows (batch * time, C) of a layer to its running sums."""
        rows = x.data.reshape(self.batch_size, len(x) // self.batch_size, x.shape[1])
        self.sums[layer] += rows.sum(axis=1, dtype=np.float64)
