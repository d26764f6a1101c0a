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
from numpy.typing import NDArray

from minigrad.kernels import kernel, overload, types
from minigrad.kernels.bfloat16 import pair_side, word_of
from minigrad.kernels.moves import LEFT, RIGHT, SIDE, copy_left, copy_right, copy_side, transpose_block

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

    packed[panel - at, word // chunk, lane, word % chunk], flat; `chunk` is 1 or SIDE. Numbers are rounded and paired in
    a small buffer first; then the words go where they belong. Words beyond the end of x are zero.
    """
    if across:
        _pack_across(x, lanes, chunk, begin, words, packed, at, start, stop)
    else:
        _pack_along(x, lanes, chunk, begin, words, packed, at, start, stop)


@kernel
def _pack_across(
    x: Array, lanes: int, chunk: int, begin: int, words: int, packed: Array, at: int, start: int, stop: int
) -> None:
    """x[step, lane]: SIDE words of some panels side by side, each from two rows of x."""
    flat, width, depth, none = x.reshape(-1), x.shape[1], x.shape[0], np.uint32(0)
    room = min(_PANELS, stop - start) * lanes
    buffer = np.zeros(SIDE * (room + SIDE), np.uint32)
    for group in range(start, stop, _PANELS):
        first, panels = group * lanes, min(_PANELS, stop - group)
        count = min(panels * lanes, width - first)
        for block in range(0, words, SIDE):
            held = min(SIDE, words - block)
            for word in range(held):
                step, line, paired = 2 * (begin + block + word), word * room, 0
                if step + 1 < depth:
                    paired = count - count % SIDE
                    for j in range(0, paired, SIDE):
                        place = step * width + first + j
                        pair_side(flat, place, place + width, 1, buffer, line + j)
                for j in range(paired, panels * lanes):
                    second = x[step + 1, first + j] if j < count and step + 1 < depth else x.dtype.type(0)
                    buffer[line + j] = word_of(x[step, first + j], second) if j < count and step < depth else none
            for panel in range(panels):
                place = ((group + panel - at) * words + block) * lanes
                if chunk == SIDE and held == SIDE and lanes % SIDE == 0:
                    for lane in range(0, lanes, SIDE):
                        transpose_block(buffer, panel * lanes + lane, room, packed, place + lane * SIDE, SIDE)
                elif chunk == 1 and lanes == RIGHT:
                    for word in range(held):
                        copy_right(buffer, word * room + panel * lanes, packed, place + word * lanes)
                else:
                    for word in range(held):
                        for lane in range(lanes):
                            target = place + word // chunk * chunk * lanes + lane * chunk + word % chunk
                            packed[target] = buffer[word * room + panel * lanes + lane]


@kernel
def _pack_along(
    x: Array, lanes: int, chunk: int, begin: int, words: int, packed: Array, at: int, start: int, stop: int
) -> None:
    """x[lane, step]: a panel's rows, each word from two neighbours."""
    flat, width, rows, none = x.reshape(-1), x.shape[1], x.shape[0], np.uint32(0)
    buffer = np.zeros(-(-lanes // SIDE) * SIDE * words, np.uint32)
    whole = max(0, min(words, width // 2 - begin))
    paired = whole - whole % SIDE
    for panel in range(start, stop):
        place = (panel - at) * words * lanes
        for lane in range(lanes):
            row, line = panel * lanes + lane, lane * words
            if row >= rows:
                buffer[line : line + words] = none
                continue
            for word in range(0, paired, SIDE):
                step = row * width + 2 * (begin + word)
                pair_side(flat, step, step + 1, 2, buffer, line + word)
            for word in range(paired, whole):
                step = 2 * (begin + word)
                buffer[line + word] = word_of(x[row, step], x[row, step + 1])
            if whole < words and width % 2 and begin <= width // 2:
                buffer[line + whole] = word_of(x[row, width - 1], x.dtype.type(0))
        turned = whole_blocks(words, lanes, (stop - at) * words * lanes - place) if chunk == 1 else 0
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
