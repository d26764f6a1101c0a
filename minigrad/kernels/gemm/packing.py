"""Packing: a factor of a matrix product copied into the order in which the innermost loop will read it.

A matrix is cut into panels of `lanes` neighbouring rows (of the left factor) or columns (of the right one). Within a
panel the numbers of one step of the sum lie together, so the loop reads memory from front to back, whether the matrix
came as it is or transposed, and the processor fetches ahead by itself. What is missing in the last panel is zero.
Panels are of 32-bit words, whatever is in them: a float32, or two bfloat16.

`across` says how the matrix lies in memory: False when the numbers of one row (column) follow each other, as in
x[lane, step]; True when those of one step do, as in x[step, lane].
"""

from __future__ import annotations

import numpy as np

from minigrad.kernels.codegen.bfloat16_parts import pair_side, split_side
from minigrad.kernels.codegen.bits import bits_of
from minigrad.kernels.codegen.vector_moves import LEFT, RIGHT, SIDE, copy_left, copy_right, transpose_block
from minigrad.kernels.jit import kernel
from minigrad.typing import Array


@kernel
def whole_blocks(steps: int, lanes: int, room: int) -> int:
    """Return how many steps of a panel can be turned in blocks of SIDE without writing beyond `room` words."""
    turned = steps - steps % SIDE
    if turned and (turned - 1) * lanes + -(-lanes // SIDE) * SIDE > room:
        turned -= SIDE
    return turned


@kernel
def pack_float32(
    x: Array, across: bool, lanes: int, begin: int, steps: int, packed: Array, start: int, stop: int
) -> None:
    """Copy panels start to stop of `steps` steps from `begin` on: packed[panel - start, step, lane], flat.

    If a panel is not as wide as a register, what is too much is overwritten by the step, or the panel, that follows.
    """
    flat, width, none = x.reshape(-1), x.shape[1], np.uint32(0)
    rows = width if across else x.shape[0]
    covering = -(-lanes // SIDE) * SIDE
    if across:
        # Step by step, so that a row of x is read along.
        for step in range(steps):
            for panel in range(start, stop):
                first, place = panel * lanes, ((panel - start) * steps + step) * lanes
                source = (begin + step) * width + first
                if lanes == LEFT and first + lanes <= rows:
                    copy_left(flat, source, packed, place)
                elif lanes == RIGHT and first + lanes <= rows:
                    copy_right(flat, source, packed, place)
                else:
                    for lane in range(min(lanes, rows - first)):
                        packed[place + lane] = bits_of(flat[source + lane])
    else:
        for panel in range(start, stop):
            first, place = panel * lanes, (panel - start) * steps * lanes
            room = (stop - start) * steps * lanes - place
            turned = whole_blocks(steps, lanes, room) if first + covering <= rows else 0
            for step in range(0, turned, SIDE):
                for lane in range(0, lanes, SIDE):
                    source = (first + lane) * width + begin + step
                    transpose_block(flat, source, width, packed, place + step * lanes + lane, lanes)
            for step in range(turned, steps):
                for lane in range(min(lanes, rows - first)):
                    packed[place + step * lanes + lane] = bits_of(x[first + lane, begin + step])
    if rows < stop * lanes and start < stop:
        place = (stop - 1 - start) * steps * lanes
        for step in range(steps):
            for lane in range(rows - (stop - 1) * lanes, lanes):
                packed[place + step * lanes + lane] = none


@kernel
def pack_words(
    flat: Array,
    origin: int,
    stride: int,
    across: bool,
    rows: int,
    steps: int,
    lanes: int,
    chunk: int,
    pieces: int,
    words: int,
    packed: Array,
    place: int,
    panels: int,
    edge: Array,
    square: Array,
) -> None:
    """Make bfloat16 words of `panels` panels of `words` words, two steps each; chunk is 1 or SIDE.

    The numbers begin at flat[origin], `stride` from one line to the next; of `rows` lanes and `steps` steps they are
    known, the rest is zero. A number is rounded to one bfloat16, or taken apart into three `pieces`. In `packed`, from
    `place` on:

    * chunk 1: [panel][word // SIDE][piece][word % SIDE][lane], a right panel, or a left one for vectors;
    * chunk SIDE: [panel][word // SIDE][piece][lane][word % SIDE], a left panel of tiles.

    The work goes by squares of SIDE lanes by SIDE words. `lanes` is a multiple of SIDE, and with more than one piece
    `words` as well; or, with one, below SIDE: then what is too much of a row of words is overwritten by the row, or the
    panel, that follows, so there must be room for a square behind the last panel. `edge` (2 SIDE^2 numbers) and
    `square` (SIDE^2 words for each piece) are room to work in.
    """
    turned = across == (chunk > 1)  # the words of a square lie in rows the other way than the panel wants them
    by_panel = not across or lanes % SIDE > 0  # else line by line
    row_step, piece_step = lanes if chunk == 1 else SIDE, SIDE * lanes
    blocks, sides = -(-words // SIDE), -(-lanes // SIDE)
    for number in range(panels * blocks * sides):
        lane, rest = number % sides * SIDE, number // sides
        panel, block = (rest // blocks, rest % blocks * SIDE) if by_panel else (rest % panels, rest // panels * SIDE)
        row, step = panel * lanes + lane, 2 * block
        source, pitch = flat, stride
        first = origin + (step * stride + row if across else row * stride + step)
        if row + SIDE > rows or step + 2 * SIDE > steps:
            known = min(SIDE, lanes - lane, rows - row), min(2 * SIDE, steps - step)
            copy_square(flat, first, stride, across, known, edge)
            source, first, pitch = edge, 0, SIDE if across else 2 * SIDE
        corner = place + (panel * words + block) * pieces * lanes + lane * (1 if chunk == 1 else SIDE)
        target = square if turned else packed
        to, by, apart = (0, SIDE, SIDE * SIDE) if turned else (corner, row_step, piece_step)
        for line in range(SIDE if turned or chunk > 1 else min(SIDE, words - block)):
            one = first + line * pitch * (2 if across else 1)
            other, distance = (one + pitch, 1) if across else (one + 1, 2)
            if pieces == 1:
                pair_side(source, one, other, distance, target, to + line * by)
            else:
                split_side(source, one, other, distance, target, to + line * by, apart)
        if turned:
            for piece in range(pieces):
                transpose_block(square, piece * SIDE * SIDE, SIDE, packed, corner + piece * piece_step, row_step)


@kernel
def copy_square(flat: Array, origin: int, stride: int, across: bool, known: tuple[int, int], square: Array) -> None:
    """Copy `known` (lanes, steps) numbers to where SIDE x 2 SIDE have room, zeros after.

    Both lie alike: [step][lane] if `across`, else [lane][step].
    """
    lanes, steps = known
    square[:] = 0
    for lane in range(lanes):
        for step in range(steps):
            if across:
                square[step * SIDE + lane] = flat[origin + step * stride + lane]
            else:
                square[lane * 2 * SIDE + step] = flat[origin + lane * stride + step]


@kernel
def pack_panels(
    x: Array,
    across: bool,
    lanes: int,
    chunk: int,
    pieces: int,
    begin: int,
    words: int,
    packed: Array,
    start: int,
    stop: int,
    edge: Array,
    square: Array,
) -> None:
    """Pack panels start to stop of `words` words from word `begin` on: float32 as they are if `pieces` is 0."""
    if pieces == 0:
        pack_float32(x, across, lanes, begin, words, packed, start, stop)
        return
    height, width = x.shape
    row, step = start * lanes, 2 * begin
    rows, steps = (width - row, height - step) if across else (height - row, width - step)
    origin = step * width + row if across else row * width + step
    flat = x.reshape(-1)
    pack_words(
        flat, origin, width, across, rows, steps, lanes, chunk, pieces, words, packed, 0, stop - start, edge, square
    )
