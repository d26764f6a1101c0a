"""Caches: during generation, the keys and values of earlier tokens are stored instead of computed again.

Each text of a batch has a length of its own. Nothing is padded: the new tokens of all texts are packed rows, and each
is stored after the earlier tokens of its text. Stored values have no gradient: the graphs of earlier passes are gone.
So a backward pass that reaches values computed with a cache is refused, instead of leaving out a part of the gradient.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad.autograd.graph import is_recording, refusing
from minigrad.autograd.observers import composite
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.decoding.kept import Kept, empty_rows, keep_rows, widened_texts
from minigrad.typing import Array


class KeyValueCache:
    """The keys and values of every layer, for `batch_size` sequences of `lengths` (batch_size,) tokens.

    With `key_shift`, half of each key is stored with the token after it (see `ops.key_shift`), even if that token
    has not arrived yet; nothing is ever stored in that half of a first key, which is 0.
    Memory is allocated once: 2 x layers x batch x max_length x G x D elements. Shapes: keys and values
    (layers, batch, max_length, G, D), with the first `lengths` positions of each sequence filled.
    In the format bfloat16 or int8 (see `in_format`), keys and values are rounded when they are stored, and everything
    reads them rounded, including the pass that stores them (see `minigrad.kernels.decoding.kept`).
    Raises InputError for a `batch_size` or a `max_length` below 1.
    """

    in_rows: tuple[str, ...] = ("keys", "values")  # the arrays that have the format

    def __init__(
        self,
        num_layers: int,
        batch_size: int,
        max_length: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: DTypeLike = "float32",
        *,
        key_shift: bool = False,
    ) -> None:
        if min(batch_size, max_length) < 1:
            raise InputError(f"caches need batch_size and max_length of at least 1, not {batch_size} and {max_length}")
        self.batch_size, self.max_length = batch_size, max_length
        self.lengths: Array = np.zeros(batch_size, np.int64)
        self.key_shift, self.format, self.dtype = key_shift, "float32", np.dtype(dtype)
        self.heads = num_kv_heads, head_dim
        shape = (num_layers, batch_size, max_length, *self.heads)
        self.keys, self.values = np.zeros(shape, dtype), np.zeros(shape, dtype)

    def in_format(self, format: str) -> Self:
        """Let this cache, which is still empty, keep its keys and values in a format; return it.

        Raises InputError for a format that is not one of `minigrad.kernels.decoding.kept.FORMATS`.
        """
        self.format = format
        for name in self.in_rows:
            setattr(self, name, empty_rows(format, getattr(self, name).shape, self.dtype))
        return self

    def arrays(self) -> Iterable[Array]:
        """Return the keys and values."""
        return [getattr(self, name) for name in self.in_rows]

    @property
    def num_bytes(self) -> int:
        """The size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays())

    def check_capacity(self, counts: Array) -> None:
        """Raise InputError unless these numbers of further tokens, (batch_size,), fit."""
        if len(counts) != self.batch_size:
            raise InputError(f"the cache holds {self.batch_size} sequences, but got tokens of {len(counts)}")
        if (over := self.lengths + counts > self.max_length).any():
            first = int(over.argmax())
            raise InputError(
                f"the cache has a capacity of {self.max_length} tokens; it holds {self.lengths[first]}, and got "
                f"{counts[first]} more. Make a cache with a larger max_length, or begin a new one with the newest part "
                "of the sequence."
            )

    def advance(self, counts: Array) -> None:
        """Add the numbers of new tokens, (batch_size,), to the lengths, after every layer has stored them."""
        self.lengths = self.lengths + counts

    def mark(self) -> None:
        """Prepare for `truncate` to any lengths at or above the current ones; a later mark replaces this one."""

    def truncate(self, lengths: ArrayLike) -> None:
        """Keep the first `lengths` tokens of each sequence.

        Lengths are given for each sequence, or as one number for all; 0 empties a sequence. A cache that cannot undo
        single tokens returns to the last `mark` instead. Its `lengths` then say how many tokens are left, and the model
        must be given the missing ones again.
        Raises InputError for more tokens than there are, or fewer than at the mark.
        """
        self.lengths = self._checked(lengths)

    def _checked(self, lengths: ArrayLike) -> Array:
        given = np.asarray(lengths)
        if given.dtype.kind not in "iu" or given.shape not in ((), (self.batch_size,)):
            raise InputError(f"a cache is cut to one length, or one for each of its {self.batch_size}, not {lengths!r}")
        wanted: Array = np.broadcast_to(given, self.batch_size).astype(np.int64)
        if (wrong := (wanted < 0) | (wanted > self.lengths)).any():
            first = int(wrong.argmax())
            raise InputError(f"a cache of {self.lengths[first]} tokens cannot be cut to {wanted[first]}")
        return wanted

    def stored(self, layer: int) -> Array:
        """Return how many keys a layer holds of each sequence, (batch,): one for each token."""
        return self.lengths

    def beside(self) -> dict[str, Array]:
        """Return what a program reads beside keys and values, by its name in `minigrad.kernels.decoding.program.Texts`.

        By default nothing.
        """
        return {}

    def copy_tokens(self, source: int, target: int, start: int, stop: int) -> None:
        """Copy the keys and values of the tokens from `start` to `stop` of one sequence to the same places of another.

        `source` and `target` are the numbers of the sequences. Lengths stay as they are.
        """
        end = stop + self.key_shift  # half of the last key is stored with the token after it
        for memory in (self.keys, self.values):
            memory[:, target, start:end] = memory[:, source, start:end]

    def select(self, sequences: ArrayLike) -> Self:
        """Return a cache of these sequences, by their numbers: fewer of them, or one of them several times.

        Shapes: sequences (count,) integers.  Raises InputError if there are none, or for a number out of range.
        """
        chosen, numbers, filled = copy.copy(self), np.asarray(sequences), slice(self.lengths.max() + 1)
        if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
            raise InputError(f"select takes the numbers of one or more sequences, as in [0, 2], not {sequences!r}")
        if (wrong := (numbers < 0) | (numbers >= self.batch_size)).any():
            raise InputError(f"a cache of {self.batch_size} sequences has none with the number {numbers[wrong][0]}")
        chosen.batch_size, chosen.lengths = len(numbers), self.lengths[numbers]
        for name in self.in_rows:
            old = getattr(self, name)
            new = np.zeros((len(old), len(numbers), *old.shape[2:]), old.dtype)
            new[:, :, filled] = old[:, numbers, filled]
            setattr(chosen, name, new)
        return chosen

    @composite
    def append(self, layer: int, k: Tensor, v: Tensor, offsets: Array) -> tuple[Tensor, Tensor, Array]:
        """Store the new keys and values of one layer; return everything stored for it: (keys, values, key_ranges).

        Shapes: k and v (rows, G, D), sequence s in the rows ``offsets[s]:offsets[s + 1]``; keys and values (batch *
        max_length, G, D), views of the cache, whose gradient is refused; key_ranges (batch, 2): the rows
        ``key_ranges[s, 0]:key_ranges[s, 1]`` are those of sequence s. Call `check_capacity` before the first layer and
        `advance` after the last. Raises ShapeError for keys or values whose heads or dtype differ from those of the
        cache, and for a layer that it lacks.
        """
        self.check_heads(k.shape, v.shape)
        self.check_fits(layer + 1, k.dtype, v.dtype)
        counts, stored = np.diff(offsets), self.stored(layer)
        sequences = np.repeat(np.arange(self.batch_size), counts)
        places = np.arange(len(k)) + np.repeat(stored - offsets[:-1], counts)
        assert places.max(initial=0) < self.max_length, "call check_capacity first"
        numbers = (layer * self.batch_size + sequences) * self.max_length + places
        slow = np.where(places + 1 < self.max_length, numbers + 1, -1) if self.key_shift else numbers
        for memory, new, those in ((self.keys, k, slow), (self.values, v, numbers)):
            keep_rows(new.data, Kept.of(memory), numbers, those)
        keys, values = (self.rows(layer, memory, offsets) for memory in (self.keys, self.values))
        return refuse_gradient(Tensor(keys), k), refuse_gradient(Tensor(values), v), self.ranges(layer, offsets)

    def check_heads(self, *shapes: tuple[int, ...]) -> None:
        """Raise ShapeError unless keys and values of these shapes (rows, G, D) have the heads of this cache."""
        for shape in shapes:
            if shape[1:] != self.heads:
                raise ShapeError(
                    f"the cache holds keys and values of {self.heads[0]} heads of {self.heads[1]} channels, but a "
                    f"layer computed the shape {shape}; override new_cache of the model, or num_kv_heads and head_dim "
                    "of its config"
                )

    @property
    def kind(self) -> tuple[Any, ...]:
        """What caches of one model have in common, beside their shape."""
        return type(self), self.key_shift

    def check_kind(self, like: KeyValueCache) -> None:
        """Raise ShapeError unless this cache is of the same kind as another one."""
        if self.kind != like.kind:
            raise ShapeError(
                f"the cache is a {type(self).__name__} of another model, which keeps other things or keeps them "
                "elsewhere; take a cache of model.new_cache"
            )

    def check_fits(self, layers: int, *dtypes: np.dtype[Any]) -> None:
        """Raise ShapeError unless the cache has this many layers or more, and keys and values of these dtypes."""
        if layers > len(self.keys) or any(dtype != self.dtype for dtype in dtypes):
            raise ShapeError(
                f"the cache is of {len(self.keys)} layers in {self.dtype}, and the model computes layer {layers} in "
                f"{' and '.join(dict.fromkeys(map(str, dtypes)))}; take a cache of model.new_cache"
            )

    def rows(self, layer: int, memory: Array, offsets: Array) -> Array:
        """Return the keys or the values of a layer, (rows, G, D), in which `ranges` are those of each sequence."""
        if self.format == "float32":
            return memory[layer].reshape(-1, *memory.shape[3:])
        return widened_texts(Kept.of(memory), layer, np.diff(self.ranges(layer, offsets)).ravel(), self.dtype)

    def ranges(self, layer: int, offsets: Array) -> Array:
        """Return the rows of each sequence among all keys of a layer, (batch, 2), with the rows of `offsets` added.

        Keys that were widened follow one another, without those of sequences that attend to nothing now.
        """
        counts = self.stored(layer) + np.diff(offsets)
        if self.format == "float32":
            first = np.arange(self.batch_size) * self.max_length
            return np.stack([first, first + counts], axis=1)
        ends = np.cumsum(np.where(self.attends(layer, offsets), counts, 0))
        return np.stack([np.append(0, ends[:-1]), ends], axis=1)

    def attends(self, layer: int, offsets: Array) -> Array:
        """Return which sequences attend to the keys of a layer in a pass that adds these rows to it, (batch,)."""
        return np.diff(offsets) > 0


def refuse_gradient(cached: Tensor, *sources: Tensor) -> Tensor:
    """Let a backward pass that reaches `cached` raise GraphError, if one of its sources requires a gradient."""
    if is_recording() and any(source.requires_grad for source in sources):
        cached.node = refusing(
            "a cache",
            cached.data,
            "backward() reached values computed with a cache, and a cache stores no gradients; call the model without "
            "a cache to train it, or inside `with no_grad():` to generate",
        )
    return cached
