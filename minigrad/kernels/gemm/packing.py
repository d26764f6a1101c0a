"""Packing: a factor of a matrix product copied into the order in which the innermost loop reads it.

A factor is cut into panels of `lanes` neighbouring rows (of the left factor) or columns (of the right one). Within a
panel the elements of one step of the sum are neighbours, so the loop reads memory from front to back, whether the
matrix was given as it is or transposed, and the processor prefetches by itself. The last panel is padded with zeros.
Panels are arrays of words (see `minigrad.kernels.codegen`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.codegen.bfloat16_pairs import NO_LARGEST, NO_SMALLEST, round_pairs, split_pairs, update_extremes
from minigrad.kernels.codegen.bits import bits_of
from minigrad.kernels.codegen.microkernel import Panel
from minigrad.kernels.codegen.vector_moves import LEFT, RIGHT, SIDE, copy_left, copy_right, transpose_block
from minigrad.kernels.jit import allocating, kernel
from minigrad.typing import Array

OVERRUN = 2 * SIDE * SIDE
"""Words after the last panel that packing may write: SIDE steps of the widest panel, which has 2 SIDE lanes."""
_LINES = 12
"""Lines of a transposed factor that are packed together: as many as a first-level cache of 48 KB has ways, because
lines that are a multiple of 4 KB apart all fall into the same set of it. (One of 32 KB has 8 ways.)"""


class Matrix(NamedTuple):
    """A factor, or a part of one, in memory. Lanes are rows of a left factor and columns of a right one."""

    elements: Array  # flat
    start: int  # index of the first element
    stride: int  # elements from one line to the next
    transposed: bool  # False: a line is a lane, x[lane, step]; True: a line is a step of the sum, x[step, lane]
    lanes: int
    steps: int


class PanelLayout(NamedTuple):
    """How the panels of a factor are laid out."""

    lanes: int  # of a panel
    chunk: int  # words of one lane that are neighbours
    parts: int  # bfloat16 parts of one element; 0 where it stays float32


class Factor(NamedTuple):
    """A factor of a product, and the layout of its panels."""

    matrix: Matrix
    layout: PanelLayout


class Section(NamedTuple):
    """The part of a factor that is packed: panels `first` to `last`, words `begin` to `begin + words` of each lane."""

    first: int
    last: int
    begin: int
    words: int


class PackScratch(NamedTuple):
    """Scratch memory of packing."""

    square: Array  # (2 SIDE^2,), of the elements' type: a square at the edge of the matrix, padded
    words: Array  # (3 SIDE^2,) uint32: the words of a square, before they are transposed
    extremes: Array  # (2 SIDE,) uint32: see `update_extremes`; of all elements split into three parts so far


@allocating
def pack_scratch(like: Array) -> PackScratch:
    """Return scratch memory for packing elements of the type of those in `like`."""
    extremes = np.empty(2 * SIDE, np.uint32)
    extremes[:SIDE], extremes[SIDE:] = NO_LARGEST, NO_SMALLEST
    return PackScratch(np.empty(2 * SIDE * SIDE, like.dtype), np.empty(3 * SIDE * SIDE, np.uint32), extremes)


@kernel
def transposable_steps(steps: int, lanes: int, capacity: int) -> int:
    """Return how many steps of a panel can be transposed in blocks of SIDE without writing beyond `capacity` words."""
    transposable = steps - steps % SIDE
    if transposable and (transposable - 1) * lanes + -(-lanes // SIDE) * SIDE > capacity:
        transposable -= SIDE
    return transposable


@kernel
def pack_float32(factor: Factor, section: Section, packed: Array) -> None:
    """Copy a section of panels: packed[panel - first, step, lane], flat; a word is a float32, so words are steps."""
    if factor.matrix.transposed:
        pack_steps(factor, section, packed)
    else:
        pack_lanes(factor, section, packed)
    clear_tail(factor, section, packed)


@kernel
def pack_steps(factor: Factor, section: Section, packed: Array) -> None:
    """Copy a section of a factor whose lines are steps.

    A few lines are copied at a time: they stay in the first-level cache while one panel after the other takes its
    share.
    """
    matrix, lanes, (first, last, begin, steps) = factor.matrix, factor.layout.lanes, section
    x = matrix.elements
    for block in range(0, steps, _LINES):
        count = min(_LINES, steps - block)
        for panel in range(first, last):
            lane, place = panel * lanes, ((panel - first) * steps + block) * lanes
            source = matrix.start + (begin + block) * matrix.stride + lane
            if lanes == LEFT and lane + lanes <= matrix.lanes:
                for step in range(count):
                    copy_left(x, source + step * matrix.stride, packed, place + step * lanes)
            elif lanes == RIGHT and lane + lanes <= matrix.lanes:
                for step in range(count):
                    copy_right(x, source + step * matrix.stride, packed, place + step * lanes)
            else:
                for step in range(count):
                    for i in range(min(lanes, matrix.lanes - lane)):
                        packed[place + step * lanes + i] = bits_of(x[source + step * matrix.stride + i])


@kernel
def pack_lanes(factor: Factor, section: Section, packed: Array) -> None:
    """Copy a section of a factor whose lines are lanes: blocks of SIDE lanes x SIDE steps are transposed in registers.

    If a panel is not as wide as a register, stores overrun it; what follows overwrites the excess. The last lanes of
    some steps are stored first, so that the first lanes of the same steps overwrite their excess.
    """
    matrix, lanes, (first, last, begin, steps) = factor.matrix, factor.layout.lanes, section
    x, covering = matrix.elements, -(-lanes // SIDE) * SIDE
    for panel in range(first, last):
        lane, place = panel * lanes, (panel - first) * steps * lanes
        source, capacity = matrix.start + lane * matrix.stride + begin, (last - first) * steps * lanes - place
        in_blocks = transposable_steps(steps, lanes, capacity) if lane + covering <= matrix.lanes else 0
        for step in range(0, in_blocks, SIDE):
            for i in range(covering - SIDE, -1, -SIDE):
                corner = place + step * lanes + i
                transpose_block(x, source + i * matrix.stride + step, matrix.stride, packed, corner, lanes)
        for step in range(in_blocks, steps):
            for i in range(min(lanes, matrix.lanes - lane)):
                packed[place + step * lanes + i] = bits_of(x[source + i * matrix.stride + step])


@kernel
def clear_tail(factor: Factor, section: Section, packed: Array) -> None:
    """Set the lanes of the last panel that lie outside the matrix to zero."""
    lanes, (first, last, _, steps) = factor.layout.lanes, section
    if factor.matrix.lanes < last * lanes and first < last:
        place = (last - 1 - first) * steps * lanes
        for step in range(steps):
            for i in range(factor.matrix.lanes - (last - 1) * lanes, lanes):
                packed[place + step * lanes + i] = np.uint32(0)


@kernel
def pack_bfloat16(factor: Factor, panels: int, words: int, target: Panel, scratch: PackScratch) -> None:
    """Pack `panels` panels of `words` words, two steps each; outside the matrix all elements are zero.

    An element is rounded to one bfloat16 part, or split into three. The words begin at target.elements[target.start]:

    * chunk 1: [panel][word // SIDE][part][word % SIDE][lane], a right panel, or a left one for vectors;
    * chunk SIDE: [panel][word // SIDE][part][lane][word % SIDE], a left panel for tiles.

    The work proceeds in squares of SIDE lanes by SIDE words. The number of lanes of a panel is a multiple of SIDE, and
    with three parts so is `words`. Or, with one part, there are fewer lanes than SIDE: then stores overrun a row of
    words, the next row or panel overwrites the excess, and after the last panel there must be memory for a square.
    """
    x, start, stride, transposed, known_lanes, known_steps = factor.matrix
    lanes, chunk, parts = factor.layout
    through_scratch = transposed == (chunk > 1)  # a square of words is the transpose of that of the panel
    by_panel = not transposed or lanes % SIDE > 0  # else line by line
    row_stride, part_stride = lanes if chunk == 1 else SIDE, SIDE * lanes
    blocks, sides = -(-words // SIDE), -(-lanes // SIDE)
    for number in range(panels * blocks * sides):
        lane, rest = number % sides * SIDE, number // sides
        panel, block = (rest // blocks, rest % blocks * SIDE) if by_panel else (rest % panels, rest // panels * SIDE)
        row, step = panel * lanes + lane, 2 * block
        source, pitch = x, stride
        first = start + (step * stride + row if transposed else row * stride + step)
        if row + SIDE > known_lanes or step + 2 * SIDE > known_steps:
            height = max(min(SIDE, lanes - lane, known_lanes - row), 0)
            width = max(min(2 * SIDE, known_steps - step), 0)
            copy_square(Matrix(x, first, stride, transposed, height, width), scratch.square)
            source, first, pitch = scratch.square, 0, SIDE if transposed else 2 * SIDE
        corner = target.start + (panel * words + block) * parts * lanes + lane * (1 if chunk == 1 else SIDE)
        y, place, y_stride, y_part = target.elements, corner, row_stride, part_stride
        if through_scratch:
            y, place, y_stride, y_part = scratch.words, 0, SIDE, SIDE * SIDE
        for line in range(SIDE if through_scratch or chunk > 1 else min(SIDE, words - block)):
            one = first + line * pitch * (2 if transposed else 1)
            other, distance = (one + pitch, 1) if transposed else (one + 1, 2)
            if parts == 1:
                round_pairs(source, one, other, distance, y, place + line * y_stride)
            else:
                split_pairs(source, one, other, distance, y, place + line * y_stride, y_part)
                update_extremes(source, one, scratch.extremes)
                update_extremes(source, one + SIDE if distance == 2 else other, scratch.extremes)
        if through_scratch:
            for part in range(parts):
                to = corner + part * part_stride
                transpose_block(scratch.words, part * SIDE * SIDE, SIDE, target.elements, to, row_stride)


@kernel
def copy_square(matrix: Matrix, square: Array) -> None:
    """Copy a matrix of at most SIDE lanes x 2 SIDE steps to a square of that size, padded with zeros.

    Both have one order: [step][lane] if the matrix is transposed, else [lane][step].
    """
    x, start, stride, transposed, lanes, steps = matrix
    lines, length, pitch = (steps, lanes, SIDE) if transposed else (lanes, steps, 2 * SIDE)
    square[:] = 0
    for line in range(lines):
        first = start + line * stride
        given, copied = x[first : first + length], square[line * pitch : line * pitch + length]
        for i in range(copied.size):
            copied[i] = given[i]


@kernel
def pack_panels(factor: Factor, section: Section, packed: Array, scratch: PackScratch) -> None:
    """Pack a section of a factor's panels, as float32 or as bfloat16."""
    (x, start, stride, transposed, lanes, steps), layout = factor
    if layout.parts == 0:
        pack_float32(factor, section, packed)
        return
    lane, step = section.first * layout.lanes, 2 * section.begin
    start += step * stride + lane if transposed else lane * stride + step
    rest = Matrix(x, start, stride, transposed, lanes - lane, steps - step)
    pack_bfloat16(Factor(rest, layout), section.last - section.first, section.words, Panel(packed, 0), scratch)
