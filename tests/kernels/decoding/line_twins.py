"""Twins of widening lines: the numbers of a format times their scales, for a whole matrix in plain NumPy."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.codegen.line_products import Lines
from minigrad.kernels.codegen.line_tile import GROUP, LINES
from minigrad.kernels.decoding.lines import CODES, Packed, pack
from tests.kernels.twin import Arguments, Array, Twin, numbers

_KEPT: deque[Packed] = deque(maxlen=64)  # Lines hold addresses: their memory is kept as long as a call can take


def floats(matrix: Packed) -> Array:
    """Return the floats that a matrix in a small format stands for, (outputs, inputs)."""
    elements, scales = matrix.stored()
    if matrix.format == "bfloat16":
        elements = (elements.astype(np.uint32) << 16).view(np.float32)
    if scales is None:
        return elements.astype(np.float32)
    if matrix.format == "int8":
        return elements * scales[:, None]
    pairs = elements.reshape(len(elements), -1, GROUP // 2).astype(np.int32)
    halves = np.concatenate([pairs & 15, pairs >> 4], axis=2)
    signed = np.where(halves > 7, halves - 16, halves).astype(np.float32)
    return (signed * scales.astype(np.float32)[..., None]).reshape(len(elements), -1)[:, : matrix.shape[1]]


def a_matrix(draw: DrawFn, *formats: str) -> Packed:
    """Draw a small matrix in one of the formats."""
    shape = draw(st.sampled_from([1, 4, 6])), draw(st.sampled_from([1, 32, 45]))
    matrix = pack(numbers(draw, np.float32, *shape), draw(st.sampled_from(formats or tuple(CODES))))
    _KEPT.append(matrix)
    return matrix


def matrix_of(lines: Lines) -> Packed:
    """Return the matrix that lines are the address of."""
    return next(matrix for matrix in reversed(_KEPT) if matrix.lines() == lines)


@st.composite
def _line_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    matrix = a_matrix(draw)
    number = draw(st.integers(0, matrix.shape[0] - 1))
    return [matrix.lines(), number, np.zeros(matrix.shape[1], dtype)]


def _widen_line(lines: Lines, number: int, out: Array) -> None:
    out[:] = floats(matrix_of(lines))[number]


@st.composite
def _lines_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    matrix = a_matrix(draw)
    chosen = np.array(draw(st.lists(st.integers(0, matrix.shape[0] - 1), min_size=1, max_size=5)), np.int64)
    start, stop = sorted(draw(st.integers(0, len(chosen))) for _ in range(2))
    return [matrix.lines(), chosen, np.zeros((len(chosen), matrix.shape[1]), np.float32), start, stop]


def _widen_lines(lines: Lines, chosen: Array, out: Array, start: int, stop: int) -> None:
    out[start:stop] = floats(matrix_of(lines))[chosen[start:stop]]


@st.composite
def _group_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    matrix = a_matrix(draw, "int4")
    blocks, groups = matrix.elements.shape[:2]
    first = draw(st.integers(0, blocks - 1)) * LINES
    return [matrix.lines(), first, np.zeros(groups * LINES * draw(st.integers(0, 1)), np.float32)]


def _scales_of_groups(lines: Lines, first: int, out: Array) -> None:
    if out.size:
        out[:] = matrix_of(lines).scales[first // LINES].reshape(-1)


TWINS: dict[str, Twin] = {
    "decoding.lines.widen_line": Twin(_line_arguments, _widen_line),
    "decoding.lines.widen_lines": Twin(_lines_arguments, _widen_lines),
    "decoding.lines.scales_of_groups": Twin(_group_arguments, _scales_of_groups),
}
