"""The plain NumPy twins of everything that a matrix product of our own is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

from minigrad.kernels.block_product import TILE_SHAPES
from minigrad.kernels.processor import BFLOAT16, FLOAT32, Block
from tests.kernels.twins import UNTOUCHED, Arguments, Twin, numbers

Array = NDArray[Any]

SIZES = st.sampled_from([0, 1, 2, 3, 4, 5, 13, 33])


@st.composite
def _matrices(draw: DrawFn, dtype: Any) -> Arguments:
    m, k, n = (draw(SIZES) for _ in range(3))
    return [numbers(draw, dtype, m, k), numbers(draw, dtype, k, n), np.full((m, n), UNTOUCHED, dtype)]


def _matmul(a: Array, b: Array, c: Array) -> None:
    c[...] = a @ b


def rounded(x: Array) -> Array:
    """Round float32 to bfloat16 by looking at the two neighbours; of two equally near ones the even one wins."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    below = bits >> 16
    near = (bits & 0xFFFF).astype(np.int64) - 0x8000  # above 0: the upper neighbour is nearer
    up = (near > 0) | ((near == 0) & (below % 2 == 1))
    return np.where(np.isnan(x), np.uint32(0x7FC0), below + up).astype(np.uint32)


def panels(x: Array, lanes: int) -> Array:
    """Cut (rows, depth) into panels of `lanes` rows, the last filled up with zeros: (panels, depth, lanes)."""
    count = -(-len(x) // lanes)
    full = np.zeros((count * lanes, x.shape[1]), x.dtype)
    full[: len(x)] = x
    return full.reshape(count, lanes, x.shape[1]).swapaxes(1, 2)


def pairs(x: Array, lanes: int, chunk: int) -> Array:
    """Round to bfloat16, two steps to a word, and cut into panels: (panels, words / chunk, lanes, chunk)."""
    words = -(-x.shape[1] // (2 * chunk)) * chunk
    full = np.zeros((len(x), 2 * words), np.uint32)
    full[:, : x.shape[1]] = rounded(x)
    cut = panels(full[:, ::2] | (full[:, 1::2] << 16), lanes)  # (panels, words, lanes)
    return cut.reshape(len(cut), words // chunk, chunk, lanes).swapaxes(2, 3)


@st.composite
def _pack_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    rows, depth, lanes = draw(SIZES), draw(SIZES), draw(st.sampled_from([1, 4, 12]))
    x, across = numbers(draw, dtype, rows, depth), draw(st.booleans())
    packed = np.full((-(-rows // lanes), depth * lanes), UNTOUCHED, dtype)
    part = sorted(draw(st.integers(0, len(packed))) for _ in range(2))
    return [np.ascontiguousarray(x.T) if across else x, across, lanes, packed, *part]


def _pack_float32(x: Array, across: bool, lanes: int, packed: Array, start: int, stop: int) -> None:
    packed[start:stop] = panels(x.T if across else x, lanes).reshape(packed.shape)[start:stop]


@st.composite
def _pack_bfloat16_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, across, lanes, packed, start, stop = draw(_pack_arguments(np.float32))
    chunk, depth = draw(st.sampled_from([1, 16])), len(x) if across else x.shape[1]
    words = -(-depth // (2 * chunk)) * chunk
    return [x, across, lanes, chunk, np.full((len(packed), words * lanes), 7, np.uint32), start, stop]


def _pack_bfloat16(x: Array, across: bool, lanes: int, chunk: int, packed: Array, start: int, stop: int) -> None:
    packed[start:stop] = pairs(x.T if across else x, lanes, chunk).reshape(packed.shape)[start:stop]


@st.composite
def _round_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x = numbers(draw, np.float32, draw(SIZES), draw(SIZES), scale=10.0 ** draw(st.integers(-30, 30)))
    return [x, np.full_like(x, UNTOUCHED), *sorted(draw(st.integers(0, len(x))) for _ in range(2))]


def _round_rows(x: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = (rounded(x[start:stop]) << 16).view(np.float32)


def _bits_arguments(dtype: Any) -> st.SearchStrategy[Arguments]:
    return st.floats(width=32).map(lambda x: [np.float32(x)])


@st.composite
def _multiply_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    block = BFLOAT16 if dtype == np.float64 and BFLOAT16 else FLOAT32
    if block is None:  # a processor that has neither: nothing calls the kernel there, nor does the test
        return [np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(0), (0, 0), 1, 1, 1, False, TILE_SHAPES.copy(), 0, 0]
    m, n = (draw(st.sampled_from([1, 2, 11, 12, 13, 31, 32, 33, 70])) for _ in range(2))
    k = draw(st.sampled_from([1, 2, 31, 32, 33, 70]))
    # Small whole numbers, so that every order of a sum gives the same and no bit of a difference is forgiven.
    left, right = (np.round(numbers(draw, np.float32, lines, k, scale=3)) for lines in (m, n))
    packed = _packed(left, right, block)
    c = np.full(m * n, UNTOUCHED, np.float32)
    depth = draw(st.sampled_from([16, 32, 256]))
    part = sorted(draw(st.integers(0, len(packed[0]))) for _ in range(2))
    add = draw(st.booleans())
    return [*packed, c, (m, n), block.rows, block.columns, depth, add, TILE_SHAPES.copy(), *part]


def _packed(left: Array, right: Array, block: Block) -> tuple[Array, Array]:
    if block.kind == "float32":
        a, b = panels(left, block.rows), panels(right, block.columns)
    else:
        a, b = pairs(left, block.rows, block.chunk), pairs(right, block.columns, 1)
        words = a.shape[1] * a.shape[3]
        b = np.concatenate([b, np.zeros((len(b), words - b.shape[1], *b.shape[2:]), b.dtype)], axis=1)
    return tuple(np.ascontiguousarray(each.reshape(len(each), -1)) for each in (a, b))  # type: ignore[return-value]


def _multiply_panels(
    a: Array,
    b: Array,
    c: Array,
    shape: tuple[int, int],
    rows: int,
    columns: int,
    depth: int,
    add: bool,
    shapes: Array,
    start: int,
    stop: int,
) -> None:
    if a.dtype == np.uint32 and BFLOAT16:
        chunk = BFLOAT16.chunk
        left, right = (_unpaired(x, lanes, step) for x, lanes, step in ((a, rows, chunk), (b, columns, 1)))
    else:
        left, right = (x.reshape(len(x), -1, lanes).swapaxes(1, 2) for x, lanes in ((a, rows), (b, columns)))
    whole = left.reshape(-1, left.shape[-1]) @ right.reshape(-1, right.shape[-1]).T
    part = slice(start * rows, min(stop * rows, shape[0]))
    block = c.reshape(shape)
    block[part] = whole[: shape[0], : shape[1]][part] + (block[part] if add else 0)


def _unpaired(x: Array, lanes: int, chunk: int) -> Array:
    words = x.reshape(len(x), -1, lanes, chunk).swapaxes(2, 3).reshape(len(x), -1, lanes)
    halves = np.stack([(words << 16).view(np.float32), (words & 0xFFFF0000).view(np.float32)], axis=2)
    return halves.reshape(len(x), -1, lanes).swapaxes(1, 2)


MATMUL_TWINS = {
    **{f"matmul.{rung}": Twin(_matrices, _matmul) for rung in ("naive", "loop_order", "blocked", "packed")},
    "matmul._multiply_panels": Twin(_multiply_arguments, _multiply_panels),
    "packing.pack_float32": Twin(_pack_arguments, _pack_float32),
    "packing.pack_bfloat16": Twin(_pack_bfloat16_arguments, _pack_bfloat16),
    "packing.bfloat16_bits": Twin(_bits_arguments, lambda x: int(rounded(np.array([x], np.float32))[0])),
    "packing._round_rows": Twin(_round_arguments, _round_rows),
}
