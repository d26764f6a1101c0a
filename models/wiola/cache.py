"""The cache of Wiola: keys, values, running sums of layers, and the newest token of merging layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad.autograd.observers import composite
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn.cache import KeyValueCache, refuse_gradient
from minigrad.typing import Array
from models.wiola.config import WiolaConfig
from models.wiola.operations.prefix_mean import prefix_mean


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
        kept = {name: np.zeros(shape, dtype) for name, shape in (("rows", rows), ("keys", heads), ("values", heads))}
        return cls(**kept, outputs=np.zeros(rows, dtype), open=np.zeros(batch_size, bool))

    def select(self, sequences: ArrayLike) -> Pending:
        """Return a copy of the state of these sequences."""
        return Pending(**{name: array[np.asarray(sequences)] for name, array in vars(self).items()})


class WiolaCache(KeyValueCache):
    """The state of every layer.

    A merging layer stores fewer keys than there are tokens: `filled` (layers, batch) of them. Shapes: sums
    (layers, batch, C) of outputs, in float64, because a running sum in fewer bits stops growing.
    """

    def __init__(self, config: WiolaConfig, batch_size: int, max_length: int, dtype: DTypeLike = "float32") -> None:
        super().__init__(config.num_layers, batch_size, max_length, config.num_kv_heads, config.head_dim, dtype)
        self.filled = np.zeros((config.num_layers, batch_size), np.int64)
        self.sums = np.zeros((config.num_layers, batch_size, config.width))
        merging = config.merging_layers if config.atm_at_generation else []
        self.pending = {layer: Pending.empty(config, batch_size, dtype) for layer in merging}
        self._mark: list[Array] | None = None  # lengths and `_changing` when the cache was marked

    def arrays(self) -> Iterable[Array]:
        """Return keys, values, sums and the state of merging layers."""
        return *super().arrays(), *self._changing()

    def beside(self) -> dict[str, Array]:
        """Return the sums."""
        return {"sums": self.sums}

    @property
    def kind(self) -> tuple[Any, ...]:
        """What caches of one model have in common, with the width of the sums."""
        return *super().kind, self.sums.shape[-1]

    def _changing(self) -> list[Array]:
        """Return views of the arrays that later tokens change, unlike keys and values: (batch, ...) each."""
        pending = [array for each in self.pending.values() for array in vars(each).values()]
        return [self.filled.T, self.sums.swapaxes(0, 1), *pending]

    def stored(self, layer: int) -> Array:
        """Return how many keys a layer holds of each sequence, (batch,): in a merging layer, one for each group."""
        return self.filled[layer] if layer in self.pending else self.lengths

    def select(self, sequences: ArrayLike) -> Self:
        """Return a cache of these sequences, by their numbers: fewer of them, or one of them several times."""
        chosen, numbers = super().select(sequences), np.asarray(sequences)
        chosen.filled, chosen._mark = self.filled[:, numbers], None
        chosen.sums = np.ascontiguousarray(self.sums[:, numbers])
        chosen.pending = {layer: pending.select(numbers) for layer, pending in self.pending.items()}
        return chosen

    def mark(self) -> None:
        """Remember the present state: `truncate` returns to it, since sums and merges cannot be undone one by one."""
        self._mark = [self.lengths, *(array.copy() for array in self._changing())]

    def truncate(self, lengths: ArrayLike) -> None:
        """Return to the last mark in each sequence that is cut. One cut to 0 tokens is emptied, which ends the mark."""
        wanted = self._checked(lengths)
        is_cut, mark = (wanted > 0) & (wanted < self.lengths), self._mark
        if (lost := is_cut if mark is None else is_cut & (wanted < mark[0])).any():
            first = int(lost.argmax())
            held = "no mark" if mark is None else f"a mark at {mark[0][first]}"
            tokens = f"a cache of {self.lengths[first]} tokens with {held}"
            raise InputError(f"{tokens} cannot be cut to {wanted[first]}, only emptied")
        if mark is not None and is_cut.any():
            for array, marked in zip([wanted, *self._changing()], mark, strict=True):
                array[is_cut] = marked[is_cut]
        is_emptied = wanted == 0  # also one without a length: a first pass that failed may have added to the sums
        self.filled[:, is_emptied], self.sums[:, is_emptied] = 0, 0
        for pending in self.pending.values():
            pending.open[is_emptied] = False
        if (is_emptied & (self.lengths > 0)).any():
            self._mark = None
        self.lengths = wanted

    def attends(self, layer: int, offsets: Array) -> Array:
        """Return which sequences attend; in a merging layer all, because a new token may have no key of its own yet."""
        return super().attends(layer, offsets) | (layer in self.pending)

    def append(self, layer: int, k: Tensor, v: Tensor, offsets: Array) -> tuple[Tensor, Tensor, Array]:
        """Store the new keys and values of one layer, and count groups; see `KeyValueCache.append`."""
        found = super().append(layer, k, v, offsets)
        if layer in self.pending:
            self.filled[layer] += np.diff(offsets)
        return found

    @composite
    def means(self, layer: int, x: Tensor, offsets: Array) -> Tensor:
        """Return for each row the mean of a layer's output over its sequence up to that row, and add to the sums.

        The rows of sequence s are ``offsets[s]:offsets[s + 1]``.
        """
        means = prefix_mean(x, offsets=offsets, carried=self.sums[layer], counts=self.lengths)
        grown = offsets[:-1] < offsets[1:]
        self.sums[layer, grown] += np.add.reduceat(x.data, offsets[:-1][grown], axis=0, dtype=np.float64)
        return refuse_gradient(Tensor(means.data), x)  # of the rows before these, only the sum is known
