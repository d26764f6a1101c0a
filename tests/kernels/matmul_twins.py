"""The plain NumPy twins of everything that a matrix product of our own is made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

from minigrad.kernels.block_product import TILE_SHAPES
from minigrad.kernels.moves import SIDE
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
def _pack_arguments(draw: DrawFn, dtype: Any, paired: bool = False) -> Arguments:
    lanes, chunk = draw(st.sampled_from([1, 4, 12, 32])), draw(st.sampled_from([1, 16])) if paired else 1
    rows, depth = draw(SIZES), draw(SIZES)
    x, across = numbers(draw, dtype, rows, depth), draw(st.booleans())
    words = -(-depth // (2 * chunk)) * chunk if paired else depth
    begin, end = sorted(draw(st.integers(0, words // chunk)) * chunk for _ in range(2))
    start, stop = sorted(draw(st.integers(0, -(-rows // lanes))) for _ in range(2))
    at = draw(st.integers(0, start))
    packed = np.full((stop - at) * (end - begin) * lanes, UNTOUCHED, np.uint32 if paired else dtype)
    spare = np.full(64, UNTOUCHED, packed.dtype)  # what is written behind the last panel belongs to nobody
    sizes = [lanes, chunk] if paired else [lanes]
    return [_lying(x, across), across, *sizes, begin, end - begin, np.concatenate([packed, spare]), at, start, stop]


def _lying(x: Array, across: bool) -> Array:
    return np.ascontiguousarray(x.T if across else x)


def _pack_float32(
    x: Array, across: bool, lanes: int, begin: int, steps: int, packed: Array, at: int, start: int, stop: int
) -> None:
    _keep(packed, panels(x.T if across else x, lanes)[start:stop, begin : begin + steps], start - at)


def _pack_bfloat16(
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
    whole = pairs(x.T if across else x, lanes, chunk)
    _keep(packed, whole[start:stop, begin // chunk : (begin + words) // chunk], start - at)


def _keep(packed: Array, found: Array, skipped: int) -> None:
    size = math.prod(found.shape[1:])
    packed[skipped * size : skipped * size + found.size] = found.reshape(-1)


@st.composite
def _round_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x = numbers(draw, np.float32, draw(SIZES), draw(SIZES), scale=10.0 ** draw(st.integers(-30, 30)))
    return [x, np.full_like(x, UNTOUCHED), *sorted(draw(st.integers(0, len(x))) for _ in range(2))]


def _round_rows(x: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = (rounded(x[start:stop]) << 16).view(np.float32)


def _blocks_arguments(dtype: Any) -> st.SearchStrategy[Arguments]:
    return st.tuples(st.integers(0, 70), st.sampled_from([1, 6, 12, 16, 32]), st.integers(0, 3000)).map(
        lambda drawn: [drawn[0], drawn[1], drawn[0] * drawn[1] + drawn[2]]
    )


def _whole_blocks(steps: int, lanes: int, room: int) -> int:
    last = [
        i * SIDE for i in range(steps // SIDE + 1) if (i * SIDE - 1) * lanes + math.ceil(lanes / SIDE) * SIDE <= room
    ]
    return max(last, default=0)


def _one_way(across: bool) -> st.SearchStrategy[Arguments]:
    """Arguments of `pack_bfloat16` for one of its two ways, without `across`."""
    both = _pack_arguments(np.float32, paired=True)
    return both.filter(lambda arguments: arguments[1] == across).map(lambda arguments: [arguments[0], *arguments[2:]])


def _pack_across(
    x: Array, lanes: int, chunk: int, begin: int, words: int, packed: Array, at: int, start: int, stop: int
) -> None:
    _pack_bfloat16(x, True, lanes, chunk, begin, words, packed, at, start, stop)


def _pack_along(
    x: Array, lanes: int, chunk: int, begin: int, words: int, packed: Array, at: int, start: int, stop: int
) -> None:
    _pack_bfloat16(x, False, lanes, chunk, begin, words, packed, at, start, stop)


def _word_arguments(dtype: Any) -> st.SearchStrategy[Arguments]:
    numbers = st.floats(width=32).map(np.float32)
    return st.tuples(numbers, numbers).map(list)


def _word(first: Any, second: Any) -> int:
    low, high = rounded(np.array([first, second], np.float32))
    return int(low) | int(high) << 16


def _bits_arguments(dtype: Any) -> st.SearchStrategy[Arguments]:
    return st.floats(width=32).map(lambda x: [np.float32(x)])


@st.composite
def _multiply_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    block = BFLOAT16 if dtype == np.float64 else FLOAT32
    m, n = (draw(st.sampled_from([1, 2, 11, 12, 13, 31, 32, 33, 70])) for _ in range(2))
    k = draw(st.sampled_from([1, 2, 31, 32, 33, 70, 1100]))
    if block is None:  # a processor that has no such registers: nothing calls the kernel there, nor does the test
        m = n = 0
        block = Block("float32", 1, 1, 1)
    # Small whole numbers, so that every order of a sum gives the same and no bit of a difference is forgiven.
    left, right = (np.round(numbers(draw, np.float32, lines, k, scale=3)) for lines in (m, n))
    a_across, b_across = draw(st.booleans()), draw(st.booleans())
    words = k if block.kind == "float32" else -(-k // 2)
    words += -words % block.chunk
    c = np.full(m * n, UNTOUCHED, np.float32)
    sides = (block.rows, block.columns, block.chunk)
    count = -(-m // block.rows) if m > n else -(-n // block.columns)
    part = sorted(draw(st.integers(0, count)) for _ in range(2))
    kind = np.empty(0, np.float32 if block.kind == "float32" else np.uint32)
    factors = [_lying(left, a_across), a_across, _lying(right, b_across), b_across]
    return [*factors, c, (m, n), sides, words, kind, draw(st.booleans()), TILE_SHAPES.copy(), *part]


def _multiply_panels(
    a: Array,
    a_across: bool,
    b: Array,
    b_across: bool,
    c: Array,
    shape: tuple[int, int],
    block: tuple[int, int, int],
    words: int,
    kind: Array,
    add: bool,
    shapes: Array,
    start: int,
    stop: int,
) -> None:
    whole = (a.T if a_across else a) @ (b if b_across else b.T)
    tall, result = shape[0] > shape[1], c.reshape(shape)
    part = slice(start * block[0], stop * block[0]) if tall else slice(start * block[1], stop * block[1])
    where = (part, slice(None)) if tall else (slice(None), part)
    result[where] = whole[where] + (result[where] if add else 0)


MATMUL_TWINS = {
    **{f"matmul.{rung}": Twin(_matrices, _matmul) for rung in ("naive", "loop_order", "blocked", "packed")},
    "matmul._multiply_panels": Twin(_multiply_arguments, _multiply_panels),
    "packing.pack_float32": Twin(lambda dtype: _pack_arguments(np.float32), _pack_float32),
    "packing.pack_bfloat16": Twin(lambda dtype: _pack_arguments(np.float32, paired=True), _pack_bfloat16),
    "packing.whole_blocks": Twin(_blocks_arguments, _whole_blocks),
    "packing._pack_across": Twin(lambda dtype: _one_way(across=True), _pack_across),
    "packing._pack_along": Twin(lambda dtype: _one_way(across=False), _pack_along),
    "bfloat16.word_of": Twin(_word_arguments, lambda x, y: _word(x, y)),
    "bfloat16.bfloat16_bits": Twin(_bits_arguments, lambda x: int(rounded(np.array([x], np.float32))[0])),
    "bfloat16._round_rows": Twin(_round_arguments, _round_rows),
}
