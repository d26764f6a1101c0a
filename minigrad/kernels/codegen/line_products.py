"""Products of four lines of weights with the vectors of one text or of several, for weights in several formats.

To write a token is to read every weight once, so the time of a product is the time of reading its bytes: a format with
smaller elements is faster by as much. Elements are widened to float32 in registers, where they are multiplied and
added; with several texts, an element that was read and widened serves all of them.

A line of a matrix holds the weights of one output. In the format FULL, lines lie where the model has them, in the type
of the vectors, float32 or float64, and are multiplied one by one. In the others, four lines are multiplied at a time,
so that a vector is read once for all four, and the groups of 32 elements of the four follow each other, so that memory
is read from front to back (measured for int8: 24 instead of 10 GB/s). A line that ends within a group is filled
with zeros, and so are missing lines. The elements of a group are, in

* FLOAT16, BFLOAT16: two bytes each;
* INT8: one byte each, a whole number; the caller multiplies the sum by the scale of the line;
* INT4: half a byte each, a whole number from -8 to 7: byte i holds element i in its lower half, and element i + 16 in
  its upper half. The sum of each group is multiplied by the scale of the group.

Every sum is added in one order, whichever lines and texts are multiplied together: a text has the same bits alone and
among others, and an output has the same bits in any thread's share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minigrad.kernels.codegen import line_tile
from minigrad.kernels.codegen.addresses import elements_at
from minigrad.kernels.codegen.line_tile import BFLOAT16, FLOAT16, FULL, GROUP, GROUP_BYTES, INT4, INT8, LINES, TEXTS
from minigrad.kernels.codegen.llvm import BYTE, at_most, counting, int64, pointer_at
from minigrad.kernels.jit import emits, overload, types
from minigrad.typing import Array


class Lines(NamedTuple):
    """A matrix in memory, as numbers."""

    format: int
    address: int
    inputs: int  # elements of a line
    outputs: int  # lines
    scales: int = 0  # the address of the scales; that of INT8 and INT4


class Vectors(NamedTuple):
    """A vector of each text: elements of a row of memory, from `source` on."""

    memory: Array  # (B, registers)
    source: int


def multiply_lines(lines: Lines, first: int, vectors: Vectors, text: int, scales: Array, sums: Array) -> None:
    """Set sums[t * LINES + i] to the product of line `first` + i, and the vector of `text` + t, if both exist.

    `first` is a multiple of LINES. If `text` is the last one, it alone is multiplied. Shapes: sums (LINES * TEXTS,);
    scales (groups * LINES,) float32, those of the groups of these lines; only INT4 reads them.
    """
    weights = _lines_at(lines, first, vectors.memory.dtype)
    if lines.format == INT4:
        weights = weights * scales.reshape(-1, LINES).T.repeat(GROUP, axis=1)
    for t in range(min(TEXTS, len(vectors.memory) - text)):
        x = vectors.memory[text + t, vectors.source : vectors.source + lines.inputs]
        for i, line in enumerate(weights[: lines.outputs - first]):
            sums[t * LINES + i] = x @ line[: lines.inputs].astype(x.dtype)


def _lines_at(lines: Lines, first: int, dtype: Any) -> Array:
    """Return four lines as they are stored, up to the end of their groups, (LINES, elements)."""
    if lines.format == FULL:
        return elements_at(lines.address, lines.outputs * lines.inputs, dtype).reshape(-1, lines.inputs)[first:][:LINES]
    size = -(-lines.inputs // GROUP) * LINES * GROUP_BYTES[lines.format]
    stored = elements_at(lines.address + first // LINES * size, size, np.int8)
    groups = stored.reshape(-1, LINES, GROUP_BYTES[lines.format]).swapaxes(0, 1).copy()  # (LINES, groups, bytes)
    if lines.format == FLOAT16:
        groups = groups.view(np.float16)
    elif lines.format == BFLOAT16:
        groups = (groups.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    elif lines.format == INT4:
        groups = np.concatenate([groups << 4 >> 4, groups >> 4], axis=2)
    return groups.reshape(LINES, -1)


@overload(multiply_lines)
def _multiply_lines(lines, first, vectors, text, scales, sums):  # type: ignore[no-untyped-def]
    if vectors.types[0].dtype == types.float64:
        return lambda lines, first, vectors, text, scales, sums: _full(lines, first, vectors, text, scales, sums)

    def multiply(lines, first, vectors, text, scales, sums):  # type: ignore[no-untyped-def]
        if lines.format == FULL:
            _full(lines, first, vectors, text, scales, sums)
        elif lines.format == FLOAT16:
            _float16(lines, first, vectors, text, scales, sums)
        elif lines.format == BFLOAT16:
            _bfloat16(lines, first, vectors, text, scales, sums)
        elif lines.format == INT8:
            _int8(lines, first, vectors, text, scales, sums)
        else:
            _int4(lines, first, vectors, text, scales, sums)

    return multiply


def _multiplier(kind: int) -> Any:
    """Return `multiply_lines` for one format."""

    def multiply(lines: Lines, first: int, vectors: Vectors, text: int, scales: Array, sums: Array) -> None:
        """Do what `multiply_lines` does; only kernels call this."""

    @emits(multiply, types.void, None, types.int64, None, types.int64, None, None)
    def _emit(builder: Any, lines: Lines, first: Any, vectors: Vectors, text: Any, scales: Any, sums: Any) -> None:
        memory: Any = vectors.memory
        last_text = builder.sub(builder.extract_value(memory.shape, 0), int64(1))

        def vector(number: int) -> Any:
            row = at_most(builder, builder.add(text, int64(number)), last_text)
            offset = builder.mul(row, builder.extract_value(memory.strides, 0))
            bytes_ = builder.bitcast(memory.data, BYTE.as_pointer())
            return builder.gep(pointer_at(builder, bytes_, offset, memory.data.type.pointee), [vectors.source])

        with builder.if_else(builder.icmp_signed("==", text, last_text)) as (alone, among_others):
            for block, count in ((alone, 1), (among_others, TEXTS)):
                with block:
                    places = [vector(number) for number in range(count)]
                    if kind == FULL:
                        _emit_full(builder, lines, first, places, sums.data)
                        continue
                    tile = line_tile.LineTile(
                        kind, builder, _packed_lines(kind, builder, lines, first), places, scales.data
                    )
                    for number, total in enumerate(tile.emit(lines.inputs)):
                        builder.store(total, builder.gep(sums.data, [int64(number)]))

    return multiply


_full, _float16, _bfloat16, _int8, _int4 = (_multiplier(kind) for kind in (FULL, FLOAT16, BFLOAT16, INT8, INT4))


def _emit_full(builder: Any, matrix: Lines, first: Any, vectors: list[Any], out: Any) -> None:
    """Emit a loop over four lines of FULL; the last line is multiplied again in place of missing lines."""
    start, last = builder.inttoptr(matrix.address, vectors[0].type), builder.sub(matrix.outputs, int64(1))
    with counting(builder, int64(LINES)) as i:
        number = at_most(builder, builder.add(first, i), last)
        tile = line_tile.LineTile(FULL, builder, [builder.gep(start, [builder.mul(number, matrix.inputs)])], vectors)
        for t, total in enumerate(tile.emit(matrix.inputs)):
            builder.store(total, builder.gep(out, [builder.add(i, int64(t * LINES))]))


def _packed_lines(kind: int, builder: Any, matrix: Lines, first: Any) -> list[Any]:
    """Return the places of the first groups of four lines."""
    groups = builder.udiv(builder.add(matrix.inputs, int64(GROUP - 1)), int64(GROUP))
    offset = builder.mul(builder.mul(groups, first), int64(GROUP_BYTES[kind]))
    start = builder.inttoptr(builder.add(matrix.address, offset), BYTE.as_pointer())
    return [builder.gep(start, [int64(i * GROUP_BYTES[kind])]) for i in range(LINES)]
