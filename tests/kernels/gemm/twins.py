"""Twins of the ladder of matrix products, of the product in blocks, of those of Newton-Schulz, and of rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.codegen.bfloat16_pairs import NO_EXTREMES
from minigrad.kernels.codegen.microkernel import Target
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SPLIT, Block
from minigrad.kernels.gemm.newton_schulz import Polynomial
from minigrad.kernels.gemm.packing import OVERRUN, Matrix, pack_scratch
from minigrad.kernels.gemm.panels import Blocking, BlockShape, PanelMemory, Work
from tests.kernels.codegen.twins import rounded
from tests.kernels.gemm.packing_twins import SIZES, elements_of, matrix_of
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers, span, untouched

BLOCKS = [block for block in (FLOAT32, BFLOAT16, SPLIT) if block is not None]


@st.composite
def _matrices(draw: DrawFn, dtype: Any) -> Arguments:
    m, k, n = (draw(SIZES) for _ in range(3))
    return [numbers(draw, dtype, m, k), numbers(draw, dtype, k, n), np.full((m, n), UNTOUCHED, dtype)]


def _matmul(a: Array, b: Array, c: Array) -> None:
    c[...] = a @ b


@st.composite
def _add_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    m, k, n = (draw(st.integers(0, 9)) for _ in range(3))
    shapes = (m + 2, k + 1), (k + 1, n + 1), (m + 1, n + 2)
    return [*(numbers(draw, dtype, *shape) for shape in shapes), m, k, n]


def _add_product(a: Array, b: Array, c: Array, m: int, k: int, n: int) -> None:
    c[:m, :n] += a[:m, :k] @ b[:k, :n]


@st.composite
def _round_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x = numbers(draw, np.float32, draw(SIZES), draw(SIZES), scale=10.0 ** draw(st.integers(-30, 30)))
    return [x, untouched(x), *span(draw, len(x))]


def _round_rows(x: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = (rounded(x[start:stop]) << 16).view(np.float32)


@st.composite
def _multiply_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    m, n = (draw(st.sampled_from([1, 2, 11, 12, 13, 31, 32, 33, 70])) for _ in range(2))
    k = draw(st.sampled_from([1, 2, 31, 32, 33, 70, 1100]))
    if not BLOCKS:
        pytest.skip("this processor has no registers for the kernel, and nothing calls it")
    block = draw(st.sampled_from(BLOCKS))
    # Small whole numbers, so that every order of a sum gives the same and no bit of a difference is forgiven.
    left, right = (
        matrix_of(np.round(numbers(draw, np.float32, lines, k, scale=3)), draw(st.booleans())) for lines in (m, n)
    )
    shape = BlockShape(block.rows, block.columns, block.chunk, block.parts)
    panels = -(-m // block.rows) if m > n else -(-n // block.columns)
    found = np.full((panels, 2, 2 * SIDE), int(UNTOUCHED), np.uint32)
    return [left, right, np.full((m, n), UNTOUCHED, np.float32), shape, found, *span(draw, panels)]


def multiply_panels(
    left: Matrix, right: Matrix, result: Array, block: BlockShape, found: Array, start: int, stop: int
) -> None:
    factors, tall = (elements_of(left), elements_of(right)), result.shape[0] > result.shape[1]
    product, side = factors[0] @ factors[1].T, block.rows if tall else block.columns
    part = slice(start * side, stop * side)
    where = (part, slice(None)) if tall else (slice(None), part)
    result[where] = product[where]
    if start < stop:
        found[start] = NO_EXTREMES
    if start < stop and block.parts == 3:
        for number, (matrix, x) in enumerate(((left, factors[0][where[0]]), (right, factors[1][where[1]]))):
            found[start, number] = extremes_by_lane(x.T if matrix.transposed else x)


@st.composite
def _work_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    left, _, result, shape, _, *part = draw(_multiply_arguments(dtype))
    return [left, result, shape, *part]


def _work_of(left: Matrix, result: Array, block: BlockShape, start: int, stop: int) -> Work:
    whole = tuple((0, -(-length // side)) for length, side in zip(result.shape, block[:2], strict=True))
    rows, columns = ((start, stop), whole[1]) if result.shape[0] > result.shape[1] else (whole[0], (start, stop))
    return Work(rows, columns, _blocking(left, block, rows[1] - rows[0], columns[1] - columns[0]))


@st.composite
def _multiply_work_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    left, right, result, block, _, *part = draw(_multiply_arguments(dtype))
    work, elements = _work_of(left, result, block, *part), result.reshape(-1)
    size = work.blocking.depth * max(block.parts, 1)
    lanes = work.blocking.together * block.rows, work.blocking.group * block.columns
    a, b = (np.zeros(count * size + OVERRUN, np.uint32) for count in lanes)
    edge = np.zeros(block.rows * block.columns, np.float32)
    return [left, right, result, block, work, PanelMemory(a, pack_scratch(elements), b, pack_scratch(elements), edge)]


def _multiply_work(
    left: Matrix, right: Matrix, result: Array, block: BlockShape, work: Work, memory: PanelMemory
) -> None:
    part = work.rows if result.shape[0] > result.shape[1] else work.columns
    multiply_panels(left, right, result, block, np.zeros((part[1], 2, 2 * SIDE), np.uint32), *part)


def extremes_by_lane(lines: Array) -> Array:
    """Return what `update_extremes` finds in lines that are read a register at a time."""
    bits = np.abs(lines).astype(np.float32).view(np.uint32)
    lanes = [bits[:, lane::SIDE] for lane in range(SIDE)]
    smallest = [(each - np.uint32(1)).min(initial=np.uint32(0xFFFFFFFF)) for each in lanes]
    return np.array([*(each.max(initial=np.uint32(0)) for each in lanes), *smallest], np.uint32)


@st.composite
def _blocking_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    tiles = [Block("tiles", 32, 32, 16, 16, parts) for parts in (1, 3)]
    block = draw(st.sampled_from([*BLOCKS, *tiles, Block("float32", 8, 32, 16)]))
    steps, panels = draw(st.sampled_from([1, 2, 33, 512, 513, 2_000, 40_000])), draw(st.sampled_from([1, 7, 80, 900]))
    left = Matrix(np.zeros(0, np.float32), 0, steps, draw(st.booleans()), 5, steps)
    return [left, BlockShape(block.rows, block.columns, block.chunk, block.parts), draw(st.integers(1, 9)), panels]


def _blocking(left: Matrix, block: BlockShape, left_panels: int, right_panels: int) -> Blocking:
    """Look for the blocking in another way: the fewest sections of a lane, and the fewest groups, that fit."""
    steps_per_word, most, capacity = 2 if block.parts else 1, 512, 1 << 19 if block.chunk > 1 else 1 << 18
    if block.parts > 1:
        most, capacity = 160, 340_000
    words = len(range(0, left.steps, steps_per_word * block.chunk)) * block.chunk
    sections = next(count for count in range(1, words + 1) if words / count <= most)
    depth = next(size for size in range(block.chunk, words + 1, block.chunk) if size * sections >= words)
    size = depth * max(block.parts, 1)
    groups = max(1, int(np.ceil(right_panels * block.columns * size / capacity)))
    group = max(1, int(np.ceil(right_panels / groups)))
    many = left.transposed or block.rows * size < 8_192
    return Blocking(words, depth, group, min(8 if many else 1, left_panels))


@st.composite
def _edge_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    width, stride = draw(st.integers(1, 5)), draw(st.integers(5, 9))
    height, inside = draw(st.integers(0, 4)), draw(st.integers(0, width))
    target = Target(numbers(draw, np.float32, 3 + height * stride + inside), 3, stride)
    return [numbers(draw, np.float32, 4 * width), target, width, (height, inside), draw(st.booleans())]


def _copy_edge(block: Array, target: Target, width: int, shape: tuple[int, int], add: bool) -> None:
    for i, row in enumerate(block.reshape(-1, width)[: shape[0], : shape[1]]):
        place = slice(target.start + i * target.stride, target.start + i * target.stride + shape[1])
        target.elements[place] = row + (target.elements[place] if add else 0)


@st.composite
def _narrow_arguments(draw: DrawFn, dtype: Any, transposed: bool) -> Arguments:
    rows, lanes, steps = draw(st.integers(0, 5)), draw(st.sampled_from([0, 1, 33, 700])), draw(SIZES)
    # Whole numbers, so that every order of a sum gives the same; of those above 256 some are no bfloat16.
    many = matrix_of(np.round(numbers(draw, np.float32, lanes, steps, scale=300)), transposed)
    few, y = np.round(numbers(draw, np.float32, rows, steps, scale=3)), np.full((rows, lanes), UNTOUCHED, np.float32)
    return [few, many, draw(st.booleans()), y, *span(draw, lanes)]


def _multiply_narrow(few: Array, many: Matrix, rounding: bool, y: Array, start: int, stop: int) -> None:
    x = elements_of(many)
    x = (rounded(x) << 16).view(np.float32) if rounding else x
    y[:, start:stop] = (few @ x.T)[:, start:stop]


@st.composite
def _dot_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    size = draw(SIZES)
    return [numbers(draw, np.float32, size), numbers(draw, np.float32, size), draw(st.booleans())]


def _dot(x: Array, y: Array, rounding: bool) -> Any:
    return x @ ((rounded(y) << 16).view(np.float32) if rounding else y)


@st.composite
def _square_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    size = draw(st.integers(0, 40))
    return [numbers(draw, dtype, size, size)]


def _mirror(square: Array) -> None:
    square[...] = np.triu(square) + np.triu(square, 1).T


@st.composite
def _iterate_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    if FLOAT32 is None:
        pytest.skip("this processor has no registers for the kernel, and nothing calls it")
    sides = st.sampled_from([1, 2, 16, 31, 32, 33, 64, 65, 97, 130])
    rows, columns = sorted((draw(sides), draw(sides)))
    # Few small whole numbers: every order of a sum gives the same, and the fifth powers of one iteration are exact.
    x = np.round(numbers(draw, np.float32, rows, columns, scale=0.3))
    shape = BlockShape(FLOAT32.rows, FLOAT32.columns, FLOAT32.chunk, FLOAT32.parts)
    return [x, Polynomial(3.0, -4.0, 2.0), draw(st.integers(0, 1)), shape]


def _iterate(x: Array, polynomial: Polynomial, count: int, block: BlockShape) -> None:
    exact = x.astype(np.float64)
    for _ in range(count):
        gram = exact @ exact.T
        exact = polynomial.a * exact + polynomial.b * gram @ exact + polynomial.c * gram @ gram @ exact
    x[...] = exact


TWINS: dict[str, Twin] = {
    "gemm.newton_schulz._mirror": Twin(_square_arguments, _mirror),
    "gemm.newton_schulz._iterate": Twin(_iterate_arguments, _iterate),
    **{f"gemm.ladder.{rung}": Twin(_matrices, _matmul) for rung in ("naive", "loop_order", "blocked", "packed")},
    "gemm.ladder.add_product": Twin(_add_arguments, _add_product),
    "gemm.panels.blocking": Twin(_blocking_arguments, _blocking),
    "gemm.panels.copy_edge": Twin(_edge_arguments, _copy_edge),
    "gemm.panels.multiply_panels": Twin(_multiply_arguments, multiply_panels),
    "gemm.panels.multiply_work": Twin(_multiply_work_arguments, _multiply_work, scratch=1),
    "gemm.panels.work_of": Twin(_work_arguments, _work_of),
    "gemm.narrow.dot": Twin(_dot_arguments, _dot, error=1e-4),
    "gemm.narrow.multiply_lanes": Twin(lambda dtype: _narrow_arguments(dtype, False), _multiply_narrow),
    "gemm.narrow.multiply_steps": Twin(lambda dtype: _narrow_arguments(dtype, True), _multiply_narrow),
    "gemm.narrow._round_rows": Twin(_round_arguments, _round_rows),
}
