"""Twins of packing: what panels and words hold, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.codegen.bfloat16_pairs import NO_EXTREMES
from minigrad.kernels.codegen.microkernel import Panel
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.gemm.packing import OVERRUN, Factor, Matrix, PackScratch, PanelLayout, Section
from minigrad.kernels.jit import KERNELS
from tests.kernels.codegen.twins import rounded, split
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers

SIZES = st.sampled_from([0, 1, 2, 3, 4, 5, 13, 33])
_WIDE = 2 * SIDE  # the lanes of the widest panel


def matrix_of(x: Array, transposed: bool) -> Matrix:
    """Return the matrix whose lanes are the rows of x, in lines of its rows or of its columns."""
    lines = np.ascontiguousarray(x.T if transposed else x)
    return Matrix(lines.reshape(-1), 0, lines.shape[1], transposed, x.shape[0], x.shape[1])


def elements_of(matrix: Matrix) -> Array:
    """Return the elements of a matrix as (lanes, steps)."""
    x, start, stride, transposed, lanes, steps = matrix
    lines, width = (steps, lanes) if transposed else (lanes, steps)
    places = start + np.arange(max(lines, 0))[:, None] * stride + np.arange(max(width, 0))
    return x[places].T if transposed else x[places]


def panels(x: Array, lanes: int) -> Array:
    """Cut (rows, depth) into panels of `lanes` rows, the last padded with zeros: (panels, depth, lanes)."""
    count = -(-len(x) // lanes)
    full = np.zeros((count * lanes, x.shape[1]), x.dtype)
    full[: len(x)] = x
    return full.reshape(count, lanes, x.shape[1]).swapaxes(1, 2)


def pairs(bits: Array, lanes: int, chunk: int) -> Array:
    """Put two steps of bfloat16 to a word and cut into panels: (panels, words / chunk, lanes, chunk)."""
    words = -(-bits.shape[1] // (2 * chunk)) * chunk
    full = np.zeros((len(bits), 2 * words), np.uint32)
    full[:, : bits.shape[1]] = bits
    cut = panels(full[:, ::2] | (full[:, 1::2] << 16), lanes)  # (panels, words, lanes)
    return cut.reshape(len(cut), words // chunk, chunk, lanes).swapaxes(2, 3)


def _scratch() -> PackScratch:
    return PackScratch(
        np.empty(2 * SIDE * SIDE, np.float32), np.empty(3 * SIDE * SIDE, np.uint32), np.copy(NO_EXTREMES)
    )


@st.composite
def _pack_arguments(draw: DrawFn, dtype: Any, choices: list[int]) -> Arguments:
    parts = draw(st.sampled_from(choices))
    lanes, chunk = draw(st.sampled_from([1, 4, 12, _WIDE])), draw(st.sampled_from([1, SIDE])) if parts else 1
    lanes = lanes if parts == 0 or (parts == 1 and lanes < SIDE) else _WIDE
    rows, depth = draw(SIZES), draw(SIZES)
    matrix = matrix_of(numbers(draw, np.float32, rows, depth), draw(st.booleans()))
    unit = SIDE if parts > 1 else chunk  # of which a section of words is a multiple
    words = -(-depth // (2 * unit)) * unit if parts else depth
    begin, end = sorted(draw(st.integers(0, words // unit)) * unit for _ in range(2))
    first, last = sorted(draw(st.integers(0, -(-rows // lanes))) for _ in range(2))
    size = (last - first) * (end - begin) * lanes * max(parts, 1)
    packed = np.full(size, UNTOUCHED, np.uint32)
    factor = Factor(matrix, PanelLayout(lanes, chunk, parts))
    return [factor, Section(first, last, begin, end - begin), packed, _scratch()]


def _pack_panels(factor: Factor, section: Section, packed: Array, *_: PackScratch) -> None:
    x, (lanes, chunk, parts), (first, last, begin, words) = elements_of(factor.matrix), factor.layout, section
    if not parts:
        found = panels(x, lanes)[first:last, begin : begin + words].copy().view(np.uint32)
    elif parts == 1:
        found = pairs(rounded(x), lanes, chunk)[first:last, begin // chunk : (begin + words) // chunk]
    else:
        every = [pairs(bits, lanes, SIDE)[first:last, begin // SIDE : (begin + words) // SIDE] for bits in split(x)]
        found = np.stack(every, axis=2)  # (panels, words / SIDE, parts, lanes, SIDE)
        found = found.swapaxes(3, 4) if chunk == 1 else found
    packed[:] = found.reshape(-1)


def _float32_arguments(lines_are_steps: bool) -> Any:
    """Return a strategy of arguments for matrices whose lines are steps, or lanes."""

    def arguments(dtype: Any) -> st.SearchStrategy[Arguments]:
        drawn = _pack_arguments(np.float32, [0]).filter(lambda drawn: drawn[0].matrix.transposed == lines_are_steps)
        return drawn.map(lambda drawn: drawn[:3])

    return arguments


def _tail_of(factor: Factor, section: Section, packed: Array) -> Array:
    """Return a view of the lanes of the last panel that lie outside the matrix."""
    lanes, (first, last, _, steps) = factor.layout.lanes, section
    known = min(factor.matrix.lanes - (last - 1) * lanes, lanes) if first < last else lanes
    return packed.reshape(last - first, steps, lanes)[-1:, :, known:]


def _pack_inside(factor: Factor, section: Section, packed: Array) -> None:
    _pack_panels(factor, section, packed)
    _tail_of(factor, section, packed)[:] = UNTOUCHED


def _clear_tail(factor: Factor, section: Section, packed: Array) -> None:
    _tail_of(factor, section, packed)[:] = 0


def _with_spare(packed: Array) -> Array:
    """Return a longer copy: in plain Python nothing may be written behind the end of an array."""
    return np.concatenate([packed, np.zeros(OVERRUN, np.uint32)])


def _panels_in_plain_python(factor: Factor, section: Section, packed: Array, scratch: PackScratch) -> None:
    longer = _with_spare(packed)
    KERNELS["gemm.packing.pack_panels"](factor, section, longer, scratch)
    packed[:] = longer[: len(packed)]


@st.composite
def _bfloat16_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    """Of a whole matrix, or of a part that begins somewhere in it."""
    (matrix, layout), (first, last, begin, words), _, scratch = draw(_pack_arguments(np.float32, [1, 3]))
    lane, step = min(first * layout.lanes, matrix.lanes), min(2 * begin, matrix.steps)
    start = step * matrix.stride + lane if matrix.transposed else lane * matrix.stride + step
    rest = matrix._replace(start=start, lanes=matrix.lanes - lane, steps=matrix.steps - step)
    place, count = draw(st.integers(0, 3)) * 16, last - first
    packed = np.full(place + count * words * layout.lanes * layout.parts, UNTOUCHED, np.uint32)
    return [Factor(rest, layout), count, words, Panel(packed, place), scratch]


def _pack_bfloat16(factor: Factor, count: int, words: int, target: Panel, *_: PackScratch) -> None:
    known = elements_of(factor.matrix)[: count * factor.layout.lanes, : 2 * words]
    full = np.zeros((count * factor.layout.lanes, 2 * words), np.float32)
    full[: known.shape[0], : known.shape[1]] = known
    padded = Factor(matrix_of(full, False), factor.layout)
    _pack_panels(padded, Section(0, count, 0, words), target.elements[target.start :])


def _bfloat16_in_plain_python(factor: Factor, count: int, words: int, target: Panel, scratch: PackScratch) -> None:
    longer = _with_spare(target.elements)
    KERNELS["gemm.packing.pack_bfloat16"](factor, count, words, Panel(longer, target.start), scratch)
    target.elements[:] = longer[: len(target.elements)]


@st.composite
def _square_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    matrix = matrix_of(numbers(draw, np.float32, 40, 50), draw(st.booleans()))
    lane, step = draw(st.integers(0, 39)), draw(st.integers(0, 49))
    lanes, steps = draw(st.integers(0, min(SIDE, 40 - lane))), draw(st.integers(0, min(2 * SIDE, 50 - step)))
    start = step * matrix.stride + lane if matrix.transposed else lane * matrix.stride + step
    return [matrix._replace(start=start, lanes=lanes, steps=steps), np.full(2 * SIDE * SIDE, UNTOUCHED, np.float32)]


def _copy_square(matrix: Matrix, square: Array) -> None:
    full = np.zeros((SIDE, 2 * SIDE), np.float32)
    full[: matrix.lanes, : matrix.steps] = elements_of(matrix)
    square[:] = (full.T if matrix.transposed else full).reshape(-1)


def _steps_arguments(dtype: Any) -> st.SearchStrategy[Arguments]:
    return st.tuples(st.integers(0, 70), st.sampled_from([1, 6, 12, 16, 32]), st.integers(0, 3000)).map(
        lambda drawn: [drawn[0], drawn[1], drawn[0] * drawn[1] + drawn[2]]
    )


def _transposable_steps(steps: int, lanes: int, capacity: int) -> int:
    fitting = [
        i * SIDE
        for i in range(steps // SIDE + 1)
        if (i * SIDE - 1) * lanes + math.ceil(lanes / SIDE) * SIDE <= capacity
    ]
    return max(fitting, default=0)


TWINS: dict[str, Twin] = {
    "gemm.packing.pack_float32": Twin(
        lambda dtype: _pack_arguments(np.float32, [0]).map(lambda drawn: drawn[:3]), _pack_panels
    ),
    "gemm.packing.pack_steps": Twin(_float32_arguments(True), _pack_inside),
    "gemm.packing.pack_lanes": Twin(_float32_arguments(False), _pack_inside),
    "gemm.packing.clear_tail": Twin(_float32_arguments(False), _clear_tail),
    "gemm.packing.pack_bfloat16": Twin(
        _bfloat16_arguments, _pack_bfloat16, _bfloat16_in_plain_python, scratch=1, overrun=OVERRUN
    ),
    "gemm.packing.pack_panels": Twin(
        lambda dtype: _pack_arguments(np.float32, [0, 1, 3]),
        _pack_panels,
        _panels_in_plain_python,
        scratch=1,
        overrun=OVERRUN,
    ),
    "gemm.packing.pack_scratch": Twin(
        lambda dtype: st.just([np.zeros(0, dtype)]),
        lambda like: (2 * SIDE * SIDE, 3 * SIDE * SIDE, 2 * SIDE),
        only_sizes=True,
    ),
    "gemm.packing.copy_square": Twin(_square_arguments, _copy_square),
    "gemm.packing.transposable_steps": Twin(_steps_arguments, _transposable_steps),
}
