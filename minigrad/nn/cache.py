"""Caches: during generation, the keys and values of earlier tokens are stored instead of computed again.

What is stored has no gradient: it was computed from tokens of earlier passes, whose graphs are gone. So a backward pass
that reaches what was computed with a cache is refused, instead of leaving out a part of the gradient.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import DTypeLike

from minigrad.autograd.graph import Node, is_recording
from minigrad.autograd.tensor import Tensor
from minigrad.errors import GraphError, InputError
from minigrad.typing import Array


class Cache:
    """The base of all caches: `batch_size` sequences of the same `length` in tokens, at most `max_length`."""

    def __init__(self, batch_size: int, max_length: int) -> None:
        if batch_size < 1 or max_length < 1:
            raise InputError(
                f"a cache needs batch_size and max_length of at least 1, not {batch_size} and {max_length}"
            )
        self.batch_size, self.max_length, self.length = batch_size, max_length, 0

    def arrays(self) -> Iterable[Array]:
        """Return the arrays that the cache allocates; each kind of cache implements this."""
        raise TypeError(f"{type(self).__name__} has no arrays of its own")

    @property
    def num_bytes(self) -> int:
        """The size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays())

    def check_capacity(self, batch_size: int, length: int) -> None:
        """Raise InputError unless `length` more tokens of `batch_size` sequences fit."""
        if batch_size != self.batch_size:
            raise InputError(f"the cache holds {self.batch_size} sequences, but got tokens of {batch_size}")
        if self.length + length > self.max_length:
            raise InputError(
                f"the cache has a capacity of {self.max_length} tokens; it holds {self.length}, and got {length} more. "
                "Make a cache with a larger max_length, or begin a new one with the newest part of the sequence."
            )

    def advance(self, length: int) -> None:
        """Add `length` to the number of tokens, after every layer has stored them."""
        self.length += length

    def select(self, sequences: Sequence[int]) -> Self:
        """Return a cache of these sequences, by their numbers: fewer of them, or one of them several times."""
        raise TypeError(f"{type(self).__name__} cannot select sequences")

    def mark(self) -> None:
        """Prepare for `truncate` to any length from the present one on; a later mark replaces this one."""

    def truncate(self, length: int) -> None:
        """Remove the tokens after the first `length`, or more of them: back to the last `mark`, where it must be so.

        Afterwards `length` is the number of tokens that are left; give the model the others again.
        Raises InputError for more tokens than there are, or fewer than at the mark.
        """
        if not 0 <= length <= self.length:
            raise InputError(f"a cache of {self.length} tokens cannot be cut to {length}")
        self.length = length


class KeyValueCache(Cache):
    """The keys and values of every layer.

    Memory is allocated once: 2 x layers x batch x max_length x G x D elements. Shapes: keys and values
    (layers, batch, max_length, G, D), of which the first `length` positions are filled.
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
        super().__init__(batch_size, max_length)
        shape = (num_layers, batch_size, max_length, num_kv_heads, head_dim)
        self.keys, self.values = np.zeros(shape, dtype), np.zeros(shape, dtype)

    def arrays(self) -> Iterable[Array]:
        """Return keys and values."""
        return self.keys, self.values

    def select(self, sequences: Sequence[int]) -> Self:
        """Return a cache of these sequences, by their numbers: fewer of them, or one of them several times."""
        chosen = copy.copy(self)
        chosen.batch_size, filled = len(sequences), slice(self.length)
        chosen.keys, chosen.values = (
            np.zeros((len(memory), len(sequences), *memory.shape[2:]), memory.dtype)
            for memory in (self.keys, self.values)
        )
        for new, old in ((chosen.keys, self.keys), (chosen.values, self.values)):
            new[:, :, filled] = old[:, sequences, filled]
        return chosen

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Array]:
        """Store the new keys and values of one layer; return all that it has stored: (keys, values, key_ranges).

        Shapes: k and v (rows, G, D), the same number of new rows for each sequence, one sequence after the other; keys
        and values (batch * max_length, G, D), views of the cache, whose gradient is refused; key_ranges (batch, 2): the
        rows ``key_ranges[s, 0]:key_ranges[s, 1]`` are those of sequence s. Call `check_capacity` before the first layer
        and `advance` after the last.
        """
        new = len(k) // self.batch_size
        stop = self.length + new
        for memory, rows in ((self.keys, k), (self.values, v)):
            memory[layer, :, self.length : stop] = rows.data.reshape(self.batch_size, new, *rows.shape[1:])
        first = np.arange(self.batch_size) * self.max_length
        ranges = np.stack([first, first + stop], axis=1)
        keys, values = (memory[layer].reshape(-1, *memory.shape[3:]) for memory in (self.keys, self.values))
        return refuse_gradient(Tensor(keys), k), refuse_gradient(Tensor(values), v), ranges


def refuse_gradient(cached: Tensor, *sources: Tensor) -> Tensor:
    """Let a backward pass that reaches `cached` raise GraphError, if one of its sources requires a gradient."""

    def backward(dy: Array) -> None:
        raise GraphError(
            "backward() reached what was computed with a cache, and a cache stores no gradients; call the model "
            "without a cache to train it, or inside `with no_grad():` to generate"
        )

    if is_recording() and any(source.requires_grad for source in sources):
        cached.node = Node("a cache", cached.shape, cached.dtype, (), backward)
    return cached
