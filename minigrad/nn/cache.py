"""The key-value cache: while a text is being written, old keys and values are kept instead of computed again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from minigrad.errors import InputError
from minigrad.tensor import Tensor

Array = NDArray[Any]


class KeyValueCache:
    """Keys and values of every layer, for `batch_size` texts that grow together to at most `max_length` tokens.

    The memory is taken once: 2 x layers x batch x max_length x G x D numbers. Shapes: keys and values
    (layers, batch, max_length, G, D); `length` is how many positions are filled.
    """

    def __init__(
        self,
        num_layers: int,
        batch_size: int,
        max_length: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: DTypeLike = "float32",
    ) -> None:
        if batch_size < 1 or max_length < 1:
            raise InputError(f"a cache needs room: batch_size {batch_size}, max_length {max_length}")
        shape = (num_layers, batch_size, max_length, num_kv_heads, head_dim)
        self.keys, self.values = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.batch_size, self.max_length, self.length = batch_size, max_length, 0

    @property
    def num_bytes(self) -> int:
        """The memory of the arrays in bytes."""
        return self.keys.nbytes + self.values.nbytes

    def check_room(self, batch_size: int, length: int) -> None:
        """Raise InputError unless `length` more tokens of `batch_size` texts fit."""
        if batch_size != self.batch_size:
            raise InputError(f"the cache holds {self.batch_size} texts, but got tokens of {batch_size}")
        if self.length + length > self.max_length:
            raise InputError(
                f"the cache has room for {self.max_length} tokens; it holds {self.length}, and {length} more came. "
                "Make a cache with a larger max_length, or start a new one from the last part of the text."
            )

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Array]:
        """Write the new keys and values (rows, G, D) of one layer and return all rows, old and new.

        The result is (keys, values, key_ranges): keys and values (batch * max_length, G, D) without copying, and for
        each text the range of rows that are filled. `length` grows when the whole model has run (`advance`).
        """
        new = len(k) // self.batch_size
        stop = self.length + new
        for memory, rows in ((self.keys, k), (self.values, v)):
            memory[layer, :, self.length : stop] = rows.data.reshape(self.batch_size, new, *rows.shape[1:])
        first = np.arange(self.batch_size) * self.max_length
        ranges = np.stack([first, first + stop], axis=1)
        keys, values = (memory[layer].reshape(-1, *memory.shape[3:]) for memory in (self.keys, self.values))
        return Tensor(keys), Tensor(values), ranges

    def advance(self, length: int) -> None:
        """Count `length` more positions as filled."""
        self.length += length
