"""What Wiola remembers of a text: keys, values, running sums for the summaries, and merging layers' last token."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from minigrad.errors import InputError
from minigrad.nn.merging import Pending
from minigrad.tensor import Tensor

Array = NDArray[Any]


class WiolaCache:
    """The state of every layer, for `batch_size` texts that grow together to at most `max_length` tokens.

    A merging layer stores fewer keys than there are tokens, and not equally many for each text. Shapes: keys and values
    (layers, batch, max_length, G, D), of which `filled` (layers, batch) are in use; sums (layers, batch, C) in float64,
    because a running sum in fewer bits stops growing; `length` counts the tokens.
    """

    def __init__(
        self,
        num_layers: int,
        batch_size: int,
        max_length: int,
        num_kv_heads: int,
        head_dim: int,
        width: int,
        merging_layers: list[int],
        dtype: DTypeLike = "float32",
    ) -> None:
        if batch_size < 1 or max_length < 1:
            raise InputError(f"a cache needs room: batch_size {batch_size}, max_length {max_length}")
        shape = (num_layers, batch_size, max_length, num_kv_heads, head_dim)
        self.keys, self.values = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.filled = np.zeros((num_layers, batch_size), np.int64)
        self.sums = np.zeros((num_layers, batch_size, width))
        rows, heads = (batch_size, width), (batch_size, num_kv_heads, head_dim)
        self.pending = {
            layer: Pending(
                rows=np.zeros(rows, dtype),
                keys=np.zeros(heads, dtype),
                values=np.zeros(heads, dtype),
                outputs=np.zeros(rows, dtype),
                open=np.zeros(batch_size, bool),
            )
            for layer in merging_layers
        }
        self.batch_size, self.max_length, self.length = batch_size, max_length, 0

    @property
    def counts(self) -> Array:
        """How many tokens each text has, (batch,)."""
        return np.full(self.batch_size, self.length)

    @property
    def num_bytes(self) -> int:
        """The memory of the arrays in bytes."""
        pending = [array for each in self.pending.values() for array in vars(each).values()]
        return sum(array.nbytes for array in (self.keys, self.values, self.filled, self.sums, *pending))

    def check_room(self, batch_size: int, length: int) -> None:
        """Raise InputError unless `length` more tokens of `batch_size` texts fit."""
        if batch_size != self.batch_size:
            raise InputError(f"the cache holds {self.batch_size} texts, but got tokens of {batch_size}")
        if self.length + length > self.max_length:
            raise InputError(
                f"the cache has room for {self.max_length} tokens; it holds {self.length}, and {length} more came. "
                "Make a cache with a larger max_length, or start a new one from the last part of the text."
            )

    def append(self, layer: int, k: Tensor, v: Tensor, offsets: Array) -> tuple[Tensor, Tensor, Array]:
        """Write new keys and values (rows, G, D) of one layer, text s at rows offsets[s]:offsets[s + 1].

        Returns (keys, values, key_ranges): all of the layer's (batch * max_length, G, D) without copying, and for each
        text the range of rows in use.
        """
        filled = self.filled[layer]
        for text, (start, stop) in enumerate(itertools.pairwise(offsets)):
            place = slice(filled[text], filled[text] + stop - start)
            self.keys[layer, text, place], self.values[layer, text, place] = k.data[start:stop], v.data[start:stop]
        filled += np.diff(offsets)
        first = np.arange(self.batch_size) * self.max_length
        keys, values = (memory[layer].reshape(-1, *memory.shape[3:]) for memory in (self.keys, self.values))
        return Tensor(keys), Tensor(values), np.stack([first, first + filled], axis=1)

    def add_to_sums(self, layer: int, x: Tensor) -> None:
        """Count the rows (batch * time, C) that a layer has put out into its running sums."""
        texts = x.data.reshape(self.batch_size, len(x) // self.batch_size, x.shape[1])
        self.sums[layer] += texts.sum(axis=1, dtype=np.float64)

    def advance(self, length: int) -> None:
        """Count `length` more tokens."""
        self.length += length
