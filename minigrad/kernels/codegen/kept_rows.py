"""Products with rows that a cache keeps in 16 or 8 bits: widened in vector registers, for several query heads at once.

The heads that share a key/value head read the same rows. So a part of a row is loaded and widened once, and multiplied
for up to three heads, as many as leave registers for four rows. Nothing that is widened goes through memory. How a row
is kept: `minigrad.kernels.decoding.kept`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.addresses import elements_at
from minigrad.kernels.codegen.bits import float32_of
from minigrad.kernels.codegen.line_tile import BFLOAT16, INT8, sums_of_lanes
from minigrad.kernels.codegen.llvm import (
    BYTE,
    FLOAT,
    SHORT,
    WORD,
    at_most,
    counting,
    declare,
    in_all_lanes,
    int64,
    pointer_at,
    repeated,
)
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.jit import emits, types
from minigrad.typing import Array

ROWS, HEADS = 4, 3
"""The rows and the query heads that are multiplied together."""
_CHUNKS = 4  # parts of a value, of SIDE elements each, whose sums stay in registers

_FLOATS, _WORDS, _BYTES = (ir.VectorType(kind, SIDE) for kind in (FLOAT, WORD, BYTE))


class Rows(NamedTuple):
    """The rows of one head, one for each position, in BFLOAT16 or INT8."""

    format: int
    address: int  # of the first row
    stride: int  # bytes from one row to the next
    length: int  # the number of rows
    size: int  # elements of a row, a multiple of SIDE


def score_rows(rows: Rows, first: int, queries: Array, heads: int, slow: Array, scores: Array, to: int) -> None:
    """Set scores[h, to : to + ROWS] to the products of a query head h, of `heads` (1 or HEADS), and rows from `first`.

    The last row stands for rows that do not exist. slow[d] is 1 where element d of a row has the second scale, else 0.
    Shapes: queries (heads * size or more,), slow (size,) int8, scores (heads or more, columns).
    """
    numbers = np.minimum(np.arange(first, first + ROWS), rows.length - 1)
    keys = np.stack([_row(rows, number, slow) for number in numbers])
    for h in range(heads):
        scores[h, to : to + ROWS] = keys @ queries[h * rows.size : (h + 1) * rows.size]


def add_rows(rows: Rows, weights: Array, begin: int, heads: int, slow: Array, out: Array, place: int) -> None:
    """Add the sum of all rows, row i times weights[h, begin + i], to the output of each head h, of 1 or HEADS.

    There is at least one row. Shapes: weights (heads or more, columns); out (floats,), the first head's from `place`.
    """
    values = np.stack([_row(rows, number, slow) for number in range(rows.length)])
    for h in range(heads):
        out[place + h * rows.size :][: rows.size] += weights[h, begin : begin + rows.length] @ values


def _row(rows: Rows, number: int, slow: Array) -> Array:
    """Return a row as floats."""
    address = rows.address + number * rows.stride
    if rows.format == BFLOAT16:
        return float32_of(elements_at(address, rows.size, np.uint16).astype(np.uint32) << np.uint32(16))
    scales = float32_of(elements_at(address + rows.size, 2, np.uint16).astype(np.uint32) << np.uint32(16))
    return elements_at(address, rows.size, np.int8) * scales[slow]


@emits(score_rows, types.void, None, types.int64, None, types.int64, None, None, types.int64)
def _emit_scores(builder: Any, rows: Rows, first: Any, *given: Any) -> None:
    queries, heads, slow, scores, to = given
    query, last = _from(builder, queries, int64(0)), builder.sub(rows.length, int64(1))
    columns, result = builder.extract_value(scores.shape, 1), _from(builder, scores, to)

    def emit(format: int, count: int) -> None:
        places = [_start_of(builder, rows, at_most(builder, builder.add(first, int64(i)), last)) for i in range(ROWS)]
        widen = [_Widening(format, builder, each, rows.size, slow.data) for each in places]
        before, zeros = builder.block, repeated(_FLOATS, 0.0)
        with counting(builder, rows.size, SIDE) as d:
            sums = [builder.phi(_FLOATS) for _ in range(count * ROWS)]
            x = [_load(builder, query, builder.add(builder.mul(rows.size, int64(h)), d)) for h in range(count)]
            keys = [each.part(d) for each in widen]
            found = [
                _multiply_add(builder, x[h], keys[i], sums[h * ROWS + i]) for h in range(count) for i in range(ROWS)
            ]
            for total, following in zip(sums, found, strict=True):
                total.add_incoming(zeros, before)
                total.add_incoming(following, builder.block)
        for h in range(count):
            target = builder.gep(result, [builder.mul(columns, int64(h))])
            for i, total in enumerate(sums_of_lanes(builder, found[h * ROWS : (h + 1) * ROWS])):
                builder.store(total, builder.gep(target, [int64(i)]))

    _emit_each(builder, rows.format, heads, emit)


@emits(add_rows, types.void, None, None, types.int64, types.int64, None, None, types.int64)
def _emit_sums(builder: Any, rows: Rows, *given: Any) -> None:
    weights, begin, heads, slow, out, place = given
    columns, weight = builder.extract_value(weights.shape, 1), _from(builder, weights, begin)
    result = _from(builder, out, place)

    def emit_chunks(format: int, count: int, start: Any, chunks: int) -> None:
        parts = [builder.add(start, int64(c * SIDE)) for c in range(chunks)]
        places = [builder.add(builder.mul(rows.size, int64(h)), d) for h in range(count) for d in parts]
        before, begun = builder.block, [_load(builder, result, each) for each in places]
        with counting(builder, rows.length) as number:
            sums = [builder.phi(_FLOATS) for _ in places]
            widen = _Widening(format, builder, _start_of(builder, rows, number), rows.size, slow.data)
            values, found = [widen.part(d) for d in parts], list[Any]()
            for h in range(count):
                one = builder.load(builder.gep(weight, [builder.add(builder.mul(columns, int64(h)), number)]))
                factor = in_all_lanes(builder, _FLOATS, one)
                found += [_multiply_add(builder, factor, value, sums[len(found) + c]) for c, value in enumerate(values)]
            for total, first, following in zip(sums, begun, found, strict=True):
                total.add_incoming(first, before)
                total.add_incoming(following, builder.block)
        for each, total in zip(places, found, strict=True):
            builder.store(total, pointer_at(builder, result, each, _FLOATS), align=4)

    def emit(format: int, count: int) -> None:
        wide = builder.sub(rows.size, builder.urem(rows.size, int64(_CHUNKS * SIDE)))
        for start, stop, chunks in ((int64(0), wide, _CHUNKS), (wide, rows.size, 1)):
            with (
                builder.if_then(builder.icmp_signed("<", start, stop)),
                counting(builder, builder.sub(stop, start), chunks * SIDE) as d,
            ):
                emit_chunks(format, count, builder.add(start, d), chunks)

    _emit_each(builder, rows.format, heads, emit)


def _emit_each(builder: Any, format: Any, heads: Any, emit: Any) -> None:
    """Emit code for each format and each number of heads, and what chooses among them."""
    with builder.if_else(builder.icmp_signed("==", format, int64(INT8))) as branches:
        for branch, each in zip(branches, (INT8, BFLOAT16), strict=True):
            with branch, builder.if_else(builder.icmp_signed("==", heads, int64(HEADS))) as (several, one):
                for inner, count in ((several, HEADS), (one, 1)):
                    with inner:
                        emit(each, count)


class _Widening:
    """A row that is widened part by part: LLVM values, and the code that widens SIDE elements."""

    def __init__(self, format: int, builder: Any, start: Any, size: Any, slow: Any) -> None:
        self.format, self.builder, self.start, self.slow = format, builder, start, slow
        if format == INT8:
            self.scales = [self._scale(builder.add(size, int64(2 * half))) for half in range(2)]

    def _scale(self, place: Any) -> Any:
        builder = self.builder
        bits = builder.load(pointer_at(builder, self.start, place, SHORT), align=1)
        word = builder.shl(builder.zext(bits, WORD), ir.Constant(WORD, 16))
        return in_all_lanes(builder, _FLOATS, builder.bitcast(word, FLOAT))

    def part(self, d: Any) -> Any:
        """Return the elements from `d` on."""
        builder = self.builder
        if self.format == BFLOAT16:
            halves = ir.VectorType(SHORT, SIDE)
            place = pointer_at(builder, self.start, builder.mul(d, int64(2)), halves)
            word = builder.shl(builder.zext(builder.load(place, align=1), _WORDS), repeated(_WORDS, 16))
            return builder.bitcast(word, _FLOATS)
        numbers, slow = (
            builder.load(pointer_at(builder, memory, d, _BYTES), align=1) for memory in (self.start, self.slow)
        )
        scale = builder.select(builder.icmp_signed("!=", slow, repeated(_BYTES, 0)), self.scales[1], self.scales[0])
        return builder.fmul(builder.sitofp(builder.sext(numbers, _WORDS), _FLOATS), scale)


def _start_of(builder: Any, rows: Rows, number: Any) -> Any:
    """Return a pointer to the first byte of a row."""
    return builder.inttoptr(builder.add(rows.address, builder.mul(number, rows.stride)), BYTE.as_pointer())


def _from(builder: Any, floats: Any, place: Any) -> Any:
    """Return a pointer to an element of an array of float32. Kernels of float64 hold such code too and never run it."""
    return builder.gep(builder.bitcast(floats.data, FLOAT.as_pointer()), [place])


def _load(builder: Any, floats: Any, place: Any) -> Any:
    return builder.load(pointer_at(builder, floats, place, _FLOATS), align=4)


def _multiply_add(builder: Any, x: Any, y: Any, total: Any) -> Any:
    return builder.call(declare(builder, f"llvm.fmuladd.v{SIDE}f32", _FLOATS, [_FLOATS] * 3), [x, y, total])
