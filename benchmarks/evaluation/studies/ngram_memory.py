"""Vidya v2 with tables of n-grams: a hash of the last tokens finds a row, which is added to the embedding.

A row is multiplied by a learned vector before it is added. The tables begin at zero, and only the rows that a step has
read are updated, by AdaGrad with one sum of squares a row (Duchi et al. 2011). `docs/course/ngram_memory.md` explains
all of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad import nn, ops
from minigrad.autograd.graph import is_recording
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn.parameter import Init, Parameter
from minigrad.system import hardware
from minigrad.training.run import Guest, Run
from minigrad.typing import Array, Arrays
from models.vidya_v2 import VidyaV2, VidyaV2Config

_ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)  # large odd numbers
_MIX, _LAST = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def keys_of(tokens: Array, layout: nn.Layout, order: int, rows: int) -> Array:
    """Return the row of the n-gram that ends at each token; `rows`, which stays zero, where it would cross a text."""
    ids = tokens.astype(np.uint64) + np.uint64(1)
    key = ids * _ODD[0]
    for back in range(1, order):
        before = np.zeros_like(ids)
        before[back:] = ids[:-back]
        key ^= (before * _ODD[back]) ^ (before >> np.uint64(3))
        key *= _MIX
    key = (key ^ (key >> np.uint64(33))) * _LAST
    found = ((key ^ (key >> np.uint64(33))) % np.uint64(rows)).astype(np.int64)
    found[layout.positions < order - 1] = rows
    return found


@dataclass
class Reading:
    """The numbers of the rows that a step has read, each once, and a copy of these rows, which gets their gradient."""

    numbers: Array
    rows: Tensor


class Table(nn.Module):
    """Rows that are looked up, and updated alone; the last one stays zero."""

    def __init__(self, rows: int, width: int) -> None:
        self.values = Parameter((rows + 1, width), Init())
        self.freeze()  # for the optimizer, which would update all rows in each step
        self.squares = np.zeros(rows + 1, np.float32)
        self.read: list[Reading] = []  # in this step

    def look_up(self, keys: Array) -> Tensor:
        """Return the rows of keys (tokens,), (tokens, width)."""
        if not is_recording():
            return Tensor(self.values.data[keys])
        numbers, places = np.unique(keys, return_inverse=True)
        self.read.append(Reading(numbers, Tensor(self.values.data[numbers], requires_grad=True)))
        return ops.embedding(self.read[-1].rows, places)

    def update(self, learning_rate: float) -> None:
        """Move each row that was read against its gradient, divided by the root of its sum of mean squares."""
        for each in self.read:
            gradient = np.asarray(each.rows.grad)
            gradient[each.numbers == len(self.squares) - 1] = 0  # of the row that stays zero
            self.squares[each.numbers] += (gradient * gradient).mean(axis=1)
            root = np.sqrt(self.squares[each.numbers])[:, None]
            self.values.data[each.numbers] -= learning_rate * gradient / (root + 1e-12)
        self.read.clear()


class Memory(nn.Wrapper):
    """The dropout after the embedding, with the rows of the n-grams added before it."""

    def __init__(self, inner: nn.Module, orders: Sequence[int], rows: int, width: int) -> None:
        super().__init__(inner)
        self.orders, self.rows = orders, rows
        self.tables = [Table(rows, width) for _ in orders]
        self.factors = [Parameter((width,), Init(mean=1.0)) for _ in orders]
        self.keys: list[Array] = []  # of the tokens that the model is about to read, for each order

    def note(self, tokens: Array, layout: nn.Layout) -> None:
        """Note the keys of tokens (rows,)."""
        self.keys = [keys_of(tokens, layout, order, self.rows) for order in self.orders]

    def forward(self, x: Tensor) -> Tensor:
        """Add a row of each table to each row of x (rows, width)."""
        for table, factor, keys in zip(self.tables, self.factors, self.keys, strict=True):
            x = x + table.look_up(keys) * factor
        return self.inner(x)


class Updates(Guest):
    """The updates of the tables of a run, at the learning rate of its step."""

    rate = 0.0

    def begin(self, run: Run) -> None:
        """Raise InputError if replicas or processes share a step, whose readings others would not see, or if parts do.

        A row that several parts of a step read must be updated once, by the sum of its gradients.
        """
        if hardware.threads() > 1 or run.world.size > 1:
            raise InputError("one thread of one process must update the tables: give --threads 1, and start one")
        if run.settings.accumulate > 1:
            raise InputError("the rows of the tables are updated once for each part of a step: leave out --accumulate")

    def before_step(self, run: Run) -> None:
        """Note the learning rate, and forget the rows that were read outside a step."""
        self.rate = run.learning_rate() * run.model.table_rate
        for table in _tables(run):
            table.read.clear()

    def after_step(self, run: Run, norm: float) -> None:
        """Update the rows that the step has read."""
        for table in _tables(run):
            table.update(self.rate)

    def arrays(self, run: Run) -> Arrays:
        """Return the sums of squares, for the checkpoint; the rows are weights, which it keeps anyway."""
        return {f"ngrams.{number}.squares": table.squares for number, table in enumerate(_tables(run))}


class Remembering(VidyaV2):
    """Vidya v2 with tables of n-grams; it can be trained and judged, but it does not write."""

    can_generate = False
    orders: Sequence[int] = (2,)
    rows = 65_536  # of each table
    table_rate = 1.0  # the learning rate of the tables, relative to that of the matrices
    guests = (Updates,)

    def __init__(self, config: VidyaV2Config) -> None:
        super().__init__(config)
        body: Any = self.model
        body.embedding_dropout = Memory(body.embedding_dropout, self.orders, self.rows, config.width)

    def hidden(self, tokens: Tensor, layout: nn.Layout, cache: Any = None) -> Tensor:
        """Note the keys of the tokens, and run the layers; raises InputError for a cache, which lacks their tokens."""
        if cache is not None:
            raise InputError("a model with tables of n-grams cannot read a text in pieces")
        memory: Any = self.model.embedding_dropout
        memory.note(tokens.data, layout)
        return super().hidden(tokens, layout)


def _tables(run: Run) -> list[Table]:
    return [module for _, module in run.model.named_modules() if isinstance(module, Table)]
