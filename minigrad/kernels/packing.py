"""Packing: a factor of a matrix product copied into the order in which the innermost loop will read it.

A matrix is cut into panels of `lanes` neighbouring rows (of the left factor) or columns (of the right one). Within a
panel the numbers of one step of the sum lie together, so the loop reads memory from front to back, whether the matrix
came as it is or transposed, and the processor fetches ahead by itself. What is missing in the last panel is zero.

`across` says how the matrix lies in memory: False when the numbers of one row (column) follow each other, as in
x[lane, step]; True when those of one step do, as in x[step, lane].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from minigrad.kernels import intrinsic, kernel, overload, rows_of, types
from minigrad.kernels.moves import LEFT, RIGHT, SIDE, copy_left, copy_right, copy_side, transpose_block
from minigrad.kernels.threads import over_rows

Array = NDArray[Any]

_PANELS = 16  # panels that are packed side by side


@kernel
def whole_blocks(steps: int, lanes: int, room: int) -> int:
    """Return how many steps of a panel can be turned in blocks of SIDE without writing beyond `room` words."""
    turned = steps - steps % SIDE
    if turned and (turned - 1) * lanes + -(-lanes // SIDE) * SIDE > room:
        turned -= SIDE
    return turned


@kernel
def pack_float32(
    x: Array, across: bool, lanes: int, begin: int, steps: int, packed: Array, at: int, start: int, stop: int
) -> None:
    """Copy panels start to stop of `steps` steps from `begin` on: packed[panel - at, step, lane], flat.

    If a panel is not as wide as a register, what is too much is overwritten by the step, or the panel, that follows.
    """
    flat, width, zero = x.reshape(-1), x.shape[1], packed.dtype.type(0)
    rows = width if across else x.shape[0]
    covering = -(-lanes // SIDE) * SIDE
    if across:
        # Step by step, so that a row of x is read along.
        for step in range(steps):
            for panel in range(start, stop):
                first, place = panel * lanes, ((panel - at) * steps + step) * lanes
                source = (begin + step) * width + first
                if lanes == LEFT and first + lanes <= rows:
                    copy_left(flat, source, packed, place)
                elif lanes == RIGHT and first + lanes <= rows:
                    copy_right(flat, source, packed, place)
                else:
                    for lane in range(min(lanes, rows - first)):
                        packed[place + lane] = flat[source + lane]
    else:
        for panel in range(start, stop):
            first, place = panel * lanes, (panel - at) * steps * lanes
            turned = whole_blocks(steps, lanes, (stop - at) * steps * lanes - place) if first + covering <= rows else 0
            for step in range(0, turned, SIDE):
                for lane in range(0, lanes, SIDE):
                    source = (first + lane) * width + begin + step
                    transpose_block(flat, source, width, packed, place + step * lanes + lane, lanes)
            for step in range(turned, steps):
                for lane in range(min(lanes, rows - first)):
                    packed[place + step * lanes + lane] = x[first + lane, begin + step]
    if rows < stop * lanes and start < stop:
        place = (stop - 1 - at) * steps * lanes
        for step in range(steps):
            for lane in range(rows - (stop - 1) * lanes, lanes):
                packed[place + step * lanes + lane] = zero


def bits_of(x: Any) -> Any:
    """Return the 32 bits of a float32 as a whole number (uint32); this body is what plain Python runs."""
    return np.float32(x).view(np.uint32)


@overload(bits_of)
def _bits_of(x):  # type: ignore[no-untyped-def]
    return lambda x: _float32_bits(x)  # type: ignore[call-arg]


@intrinsic
def _float32_bits(typing_context, x):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


def number_of(bits: Any) -> Any:
    """Return the float32 that these 32 bits (uint32) are; this body is what plain Python runs."""
    return np.uint32(bits).view(np.float32)


@overload(number_of)
def _number_of(bits):  # type: ignore[no-untyped-def]
    return lambda bits: _float32_number(bits)  # type: ignore[call-arg]


@intrinsic
def _float32_number(typing_context, bits):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@kernel
def bfloat16_bits(x: float) -> Any:
    """Round a float32 to bfloat16, to the nearest and ties to even; return its 16 bits in a uint32.

    bfloat16 is the upper half of a float32: the same exponent, 8 bits of precision instead of 24.
    """
    bits = bits_of(x)
    # Half a unit of the last place that stays, minus one if that place is even: ties then go to even.
    half = np.uint32(np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    rounded = np.uint32(np.uint32(bits + half) >> np.uint32(16))
    return rounded if x == x else np.uint32(0x7FC0)  # rounding would turn some NaN into infinity


@kernel
def pack_bfloat16(
    x: Array,
    across: bool,
    lanes: int,
    chunk: int,
    begin: int,
    words: int,
    packed: Array,
    at: int,
    start: int,
    stop: int,
) -> None:
    """Round and copy panels start to stop of `words` words, two steps each, from word `begin` on.

    packed[panel - at, word // chunk, lane, word % chunk], flat. Long runs of numbers that follow each other in x are
    rounded first, in vector registers, into a small buffer; then the words go where they belong. Words beyond the end
    of x are zero.
    """
    rows, depth = (x.shape[1], x.shape[0]) if across else (x.shape[0], x.shape[1])
    high, none, panel_size = np.uint32(16), np.uint32(0), words * lanes
    if across:
        buffer = np.empty(_PANELS * lanes, np.uint32)
        for group in range(start, stop, _PANELS):
            first, panels = group * lanes, min(_PANELS, stop - group)
            count = min(panels * lanes, rows - first)
            buffer[count:] = none
            for word in range(words):
                step = 2 * (begin + word)
                if step + 1 < depth:
                    for j in range(count):
                        upper = np.uint32(bfloat16_bits(x[step + 1, first + j]) << high)
                        buffer[j] = bfloat16_bits(x[step, first + j]) | upper
                else:
                    for j in range(count):
                        buffer[j] = bfloat16_bits(x[step, first + j]) if step < depth else none
                place = (group - at) * panel_size + word // chunk * chunk * lanes + word % chunk
                for panel in range(panels):
                    for lane in range(lanes):
                        packed[place + panel * panel_size + lane * chunk] = buffer[panel * lanes + lane]
    else:
        # A panel's rows first, word by word; then, as chunks of a row or turned on their side, to their places.
        buffer = np.zeros(-(-lanes // SIDE) * SIDE * words, np.uint32)
        whole = max(0, min(words, depth // 2 - begin))
        for panel in range(start, stop):
            place = (panel - at) * panel_size
            for lane in range(lanes):
                row, line = panel * lanes + lane, lane * words
                if row < rows:
                    for word in range(whole):
                        upper = np.uint32(bfloat16_bits(x[row, 2 * (begin + word) + 1]) << high)
                        buffer[line + word] = bfloat16_bits(x[row, 2 * (begin + word)]) | upper
                    if whole < words and depth % 2 and begin <= depth // 2:
                        buffer[line + whole] = bfloat16_bits(x[row, depth - 1])
                else:
                    buffer[line : line + words] = none
            turned = whole_blocks(words, lanes, (stop - at) * panel_size - place) if chunk == 1 else 0
            for word in range(0, turned, SIDE):
                for lane in range(0, lanes, SIDE):
                    transpose_block(buffer, lane * words + word, words, packed, place + word * lanes + lane, lanes)
            for group in range(turned, words, chunk):
                for lane in range(lanes):
                    if chunk == SIDE:
                        copy_side(buffer, lane * words + group, packed, place + group * lanes + lane * chunk)
                    else:
                        for rest in range(chunk):
                            packed[place + group * lanes + lane * chunk + rest] = buffer[lane * words + group + rest]


def pack_panels(
    x: Array,
    across: bool,
    lanes: int,
    chunk: int,
    begin: int,
    words: int,
    packed: Array,
    at: int,
    start: int,
    stop: int,
) -> None:
    """Call `pack_bfloat16` if the panels are of words (uint32), else `pack_float32`."""
    if packed.dtype == np.uint32:
        pack_bfloat16(x, across, lanes, chunk, begin, words, packed, at, start, stop)
    else:
        pack_float32(x, across, lanes, begin, words, packed, at, start, stop)


@overload(pack_panels)
def _pack_panels(x, across, lanes, chunk, begin, words, packed, at, start, stop):  # type: ignore[no-untyped-def]
    if packed.dtype == types.uint32:
        return lambda x, across, lanes, chunk, begin, words, packed, at, start, stop: pack_bfloat16(
            x, across, lanes, chunk, begin, words, packed, at, start, stop
        )
    return lambda x, across, lanes, chunk, begin, words, packed, at, start, stop: pack_float32(
        x, across, lanes, begin, words, packed, at, start, stop
    )


@kernel
def _round_rows(x: Array, y: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        for j in range(x.shape[1]):
            y[i, j] = number_of(bfloat16_bits(x[i, j]) << np.uint32(16))


def round_bfloat16(x: Array) -> Array:
    """Return a float32 array with every number rounded to bfloat16; a transposed matrix stays one."""
    if x.flags.f_contiguous and not x.flags.c_contiguous:
        return round_bfloat16(x.T).T
    rows = rows_of(x)
    y = np.empty_like(rows)
    over_rows(lambda start, stop: _round_rows(rows, y, start, stop), len(rows), rows.shape[1])
    return y.reshape(x.shape)
