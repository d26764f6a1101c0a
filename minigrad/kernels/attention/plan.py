"""What both passes of attention are given: the arrays, which keys each query sees, how the work is divided, and how
products are computed.

One task is one sequence and one key/value head, with all query heads that share it; no two tasks write to the same
element.

The loops of attention are always our own. Where products of float32 are split into three bfloat16 parts
(`minigrad.kernels.gemm.backend`), so are those of attention, unless a value is infinite, NaN or extreme: a value of
the sequence in the forward pass, of any sequence in the backward pass. With `blas` and for float64 nothing is split. In
bfloat16 the factors of all five products are rounded: while they are packed if the processor multiplies bfloat16,
otherwise before packing. The type of `Arithmetic.packed` selects the compiled loops, so that no product depends on an
earlier choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from minigrad.kernels.cpu import SMALL_BFLOAT16
from minigrad.kernels.gemm.backend import rounds, splits
from minigrad.kernels.gemm.narrow import round_bfloat16
from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise.dropout import Draws, Stream, draws_of
from minigrad.typing import Array

_LEAST_EXPONENT, _MOST_EXPONENT = -96, 100  # see `is_moderate`


class Arithmetic(NamedTuple):
    """How packed factors are stored and multiplied."""

    packed: Array  # empty, of the type of packed factors (see `minigrad.kernels.attention.tiles`)
    rounding: bool  # whether elements are rounded to bfloat16 before they are packed

    @classmethod
    def of(cls, kind: Any, are_moderate: bool) -> Self:
        """Return the arithmetic for factors of a type, whose values bfloat16 parts can hold or not."""
        if not (packs_words(kind) and are_moderate):
            return cls(np.empty(0, kind), rounds(kind))
        return cls(np.empty(0, np.int32 if rounds(kind) else np.uint32), False)


def packs_words(kind: Any) -> bool:
    """Return whether factors of a type are packed as words of bfloat16 parts, if these can hold their values."""
    return SMALL_BFLOAT16 is not None if rounds(kind) else splits(kind)


def arithmetic_for(*factors: Array) -> Arithmetic:
    """Return the arithmetic of attention for these factors, which have one type."""
    return Arithmetic.of(factors[0].dtype, packs_words(factors[0].dtype) and is_moderate(*factors))


def is_moderate(*factors: Array) -> bool:
    """Return whether bfloat16 parts hold what attention multiplies, in relation to the largest elements.

    A gradient is a sum of products of one element of each factor. The exponents of their largest elements are as
    `frexp` gives them; the negative ones must add up to at least -96, and the positive ones to at most 100. Then the
    product of the largest elements of any of up to four factors is between 2^-100 and 2^100: no sum overflows, and what
    the tile registers take for zero, below 2^-126, is at most 2^-26 of it.
    """
    exponents = []
    for x in factors:
        rows = rows_of(x)
        (largest,) = largest_values(rows, np.array([[0, len(rows)]])).tolist()
        if not math.isfinite(largest):
            return False
        exponents.append(math.frexp(largest)[1])
    smallest, largest = (sum(order(each, 0) for each in exponents) for order in (min, max))
    return smallest >= _LEAST_EXPONENT and largest <= _MOST_EXPONENT


@kernel
def largest_of_spans(words: Array, spans: Array, largest: Array) -> None:
    """Set largest[s] to the largest of the rows spans[s, 0] to spans[s, 1] of words, without their highest bits.

    Words are the bits of float32, so the results are those of the largest absolute value; the bits of infinity and NaN
    are the highest.
    """
    elements, width = words.reshape(-1), words.shape[1]
    for s in range(len(spans)):
        span, found = elements[spans[s, 0] * width : spans[s, 1] * width], np.uint32(0)
        for i in range(span.size):
            found = max(found, np.uint32(span[i] & np.uint32(0x7FFFFFFF)))
        largest[s] = found


def largest_values(x: Array, spans: Array) -> Array:
    """Return the largest absolute value in the rows of each span: x (rows, width) float32, spans (S, 2) -> (S,)."""
    largest = np.empty(len(spans), np.uint32)
    largest_of_spans(x.view(np.uint32), spans, largest)
    return largest.view(np.float32)


def moderate_sequences(q: Array, k: Array, v: Array, offsets: Array, ranges: Array) -> Array:
    """Return whether three bfloat16 parts hold what attention multiplies (`is_moderate`), for each sequence (S,).

    Each is judged by its own queries, keys and values, so the arithmetic of a text does not depend on other texts, nor
    on what else a cache holds. A sequence without queries is moderate. Shapes: q, k and v as rows, float32.
    """
    own, exponents = np.stack([offsets[:-1], offsets[1:]], axis=1), np.zeros((2, len(ranges)), np.int64)
    read, found = np.where(np.diff(own) > 0, ranges, 0), np.ones(len(ranges), bool)
    for x, spans in ((q, own), (k, read), (v, read)):
        largest = largest_values(x, spans)
        found &= np.isfinite(largest)
        powers = np.frexp(largest)[1]
        exponents += np.minimum(powers, 0), np.maximum(powers, 0)
    return found & (exponents[0] >= _LEAST_EXPONENT) & (exponents[1] <= _MOST_EXPONENT)


class Seen(NamedTuple):
    """Which keys queries see, one element per query: of the first `visible` keys all but the first `first`."""

    first: Array
    visible: Array


class Inputs(NamedTuple):
    """What the loops of both passes read; offsets, ranges, seen and scale are those of `Plan`."""

    q: Array  # (rows, heads * D)
    k: Array  # (key rows, kv_heads * D)
    v: Array  # (key rows, kv_heads * D)
    offsets: Array
    ranges: Array
    seen: Seen
    kv_heads: int
    scale: float
    draws: Draws
    arithmetic: Arithmetic


class Denominators(NamedTuple):
    """The denominators of softmaxes, sums of exponentials: total * exp(scale * largest).  Shapes: (rows, heads).

    The two numbers stay apart: in their logarithm, scale * largest + log(total), a large score would take the digits of
    the total, and each probability that is computed from it would be wrong by a factor.
    """

    largest: Array  # the largest score that a query sees, before the scale; -inf if it sees no key
    total: Array  # the sum of exp(scale * (score - largest)); 0 if it sees no key


class Gradients(NamedTuple):
    """The gradients of queries, keys and values, in the shapes of `Inputs`."""

    dq: Array
    dk: Array
    dv: Array


class HeadGroup(NamedTuple):
    """A key/value head and the query heads that share it."""

    head: int  # the key/value head
    kv_heads: int  # key/value heads altogether
    group: int  # query heads of one key/value head
    size: int  # elements of a head


class Task(NamedTuple):
    """One sequence and one key/value head."""

    heads: HeadGroup
    first: int  # the first position of the queries
    num_rows: int  # query rows: one for each position and query head
    first_key: int
    num_keys: int


@kernel
def task_of(inputs: Inputs, number: int) -> Task:
    """Return the task of this number."""
    sequence, head, width = number // inputs.kv_heads, number % inputs.kv_heads, inputs.k.shape[1]
    heads = HeadGroup(head, inputs.kv_heads, inputs.q.shape[1] // width, width // inputs.kv_heads)
    first, last = inputs.offsets[sequence], inputs.offsets[sequence + 1]
    first_key, last_key = inputs.ranges[sequence, 0], inputs.ranges[sequence, 1]
    return Task(heads, first, (last - first) * heads.group, first_key, last_key - first_key)


@dataclass(frozen=True)
class Plan:
    """Which keys each query sees, the scale of the scores, and dropout.

    Sequence s has query rows offsets[s]:offsets[s + 1], and keys in rows ranges[s, 0]:ranges[s, 1]. Of these keys,
    query row r sees the first `visible[r]`, without the first `first_visible[r]` of them if that is given; neither
    number decreases within a sequence. Each probability is dropped with the probability `dropout`, by draws that are a
    function of `stream` and of the place of query, head and key.
    Shapes: offsets (S + 1,), ranges (S, 2), visible and first_visible (rows,), all int64.
    """

    offsets: Array
    ranges: Array
    visible: Array
    scale: float
    dropout: float = 0.0
    stream: Stream = field(default_factory=lambda: Stream(0))
    first_visible: Array | None = None

    @property
    def seen(self) -> Seen:
        """Which keys each query row sees."""
        return Seen(np.zeros_like(self.visible) if self.first_visible is None else self.first_visible, self.visible)

    def runs(self, q: Array, k: Array, v: Array) -> Iterator[tuple[Arithmetic, int, int]]:
        """Yield the arithmetic of each sequence in the forward pass: that of sequences `first` to `last`."""
        count = len(self.ranges)
        moderate = np.ones(count, bool)
        if packs_words(q.dtype):
            moderate = moderate_sequences(flat(q), flat(k), flat(v), self.offsets, self.ranges)
        cuts = [0, *(np.flatnonzero(moderate[1:] != moderate[:-1]) + 1).tolist(), count]
        for first, last in itertools.pairwise(cuts):
            yield Arithmetic.of(q.dtype, bool(moderate[first:last].all())), first, last

    def inputs(self, arithmetic: Arithmetic, q: Array, k: Array, v: Array) -> Inputs:
        """Return what the loops read, for q (rows, H, D), k and v (key rows, G, D)."""
        draws = draws_of(self.dropout, self.stream, q.dtype)
        arrays = flat(q), flat(k), flat(v), self.offsets, self.ranges, self.seen
        inputs = Inputs(*arrays, k.shape[1], q.dtype.type(self.scale), draws, arithmetic)
        if not arithmetic.rounding:
            return inputs
        return inputs._replace(q=round_bfloat16(inputs.q), k=round_bfloat16(inputs.k), v=round_bfloat16(inputs.v))

    def num_tasks(self, k: Array) -> int:
        """Return the number of tasks for k (key rows, G, D)."""
        return (len(self.offsets) - 1) * k.shape[1]

    def work(self, q: Array, k: Array) -> int:
        """Estimate the element operations of one task, to decide whether threads pay off.

        Half an operation for each element of a query and each key: counted this way, 4 million operations (4 sequences
        x 128 positions x 4 heads x 32) take 0.5 ms, as long as in a row loop.
        """
        first, visible = self.seen
        return q.size // max(self.num_tasks(k), 1) * int((visible - first).max(initial=0)) // 2


def flat(x: Array) -> Array:
    """Return x (rows, H, D) as rows (rows, H * D)."""
    return rows_of(x, x.shape[1] * x.shape[2])
