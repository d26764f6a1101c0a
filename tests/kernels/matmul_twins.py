"""The plain NumPy twins of everything that a matrix product of our own is made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SPLIT, Block
from minigrad.kernels.jit import KERNELS
from tests.kernels.twins import UNTOUCHED, Arguments, Twin, numbers

Array = NDArray[Any]

_SPARE = 3 * SIDE * SIDE

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


def taken_apart(x: Array) -> list[Array]:
    """Return the bits (uint32) of three bfloat16 numbers that together are x: one cut off, one rounded, the rest."""
    with np.errstate(invalid="ignore"):
        high = np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        rest = x - high.view(np.float32)
        middle = (rest.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
        low = rest - middle.view(np.float32)
    return [bits >> 16 for bits in (high, middle, low.view(np.uint32))]


def pairs(bits: Array, lanes: int, chunk: int) -> Array:
    """Put two steps of bfloat16 numbers to a word and cut into panels: (panels, words / chunk, lanes, chunk)."""
    words = -(-bits.shape[1] // (2 * chunk)) * chunk
    full = np.zeros((len(bits), 2 * words), np.uint32)
    full[:, : bits.shape[1]] = bits
    cut = panels(full[:, ::2] | (full[:, 1::2] << 16), lanes)  # (panels, words, lanes)
    return cut.reshape(len(cut), words // chunk, chunk, lanes).swapaxes(2, 3)


@st.composite
def _pack_arguments(draw: DrawFn, dtype: Any, choices: list[int]) -> Arguments:
    pieces = draw(st.sampled_from(choices))
    lanes, chunk = draw(st.sampled_from([1, 4, 12, 32])), draw(st.sampled_from([1, SIDE])) if pieces else 1
    lanes = lanes if pieces == 0 or (pieces == 1 and lanes < SIDE) else 32
    rows, depth = draw(SIZES), draw(SIZES)
    x, across = numbers(draw, np.float32, rows, depth), draw(st.booleans())
    unit = SIDE if pieces > 1 else chunk  # of which a part of a sum is a multiple
    words = -(-depth // (2 * unit)) * unit if pieces else depth
    begin, end = sorted(draw(st.integers(0, words // unit)) * unit for _ in range(2))
    start, stop = sorted(draw(st.integers(0, -(-rows // lanes))) for _ in range(2))
    size = (stop - start) * (end - begin) * lanes * max(pieces, 1)
    packed = np.full(size + _SPARE, UNTOUCHED, np.uint32)[:size]  # what is written behind it belongs to nobody
    return [_lying(x, across), across, lanes, chunk, pieces, begin, end - begin, packed, start, stop, *_room()]


def _room() -> Arguments:
    return [np.empty(2 * SIDE * SIDE, np.float32), np.empty(3 * SIDE * SIDE, np.uint32)]


def _lying(x: Array, across: bool) -> Array:
    return np.ascontiguousarray(x.T if across else x)


def _pack_panels(
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
    *_: Array,
) -> None:
    x = x.T if across else x
    if not pieces:
        found = panels(x, lanes)[start:stop, begin : begin + words].copy().view(np.uint32)
    elif pieces == 1:
        found = pairs(rounded(x), lanes, chunk)[start:stop, begin // chunk : (begin + words) // chunk]
    else:
        whole = [
            pairs(bits, lanes, SIDE)[start:stop, begin // SIDE : (begin + words) // SIDE] for bits in taken_apart(x)
        ]
        found = np.stack(whole, axis=2)  # (panels, words / SIDE, pieces, lanes, SIDE)
        found = found.swapaxes(3, 4) if chunk == 1 else found
    packed[:] = found.reshape(-1)


def _in_plain_python(*arguments: Any) -> None:
    """Call `pack_panels` where nothing may be written behind the end of an array."""
    packed = arguments[7]
    roomy = np.concatenate([packed, np.zeros(_SPARE, np.uint32)])
    KERNELS["gemm.packing.pack_panels"](*arguments[:7], roomy, *arguments[8:])
    packed[:] = roomy[: len(packed)]


@st.composite
def _words_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    """Of a whole matrix, or of a part that begins somewhere in it."""
    x, across, lanes, chunk, pieces, begin, words, _, start, stop, *room = draw(_pack_arguments(np.float32, [1, 3]))
    rows, steps = x.T.shape if across else x.shape
    row, step = min(start * lanes, rows), min(2 * begin, steps)
    place, panels = draw(st.integers(0, 3)) * 16, stop - start
    packed = np.full(place + panels * words * lanes * pieces + _SPARE, UNTOUCHED, np.uint32)[:-_SPARE]
    origin = step * x.shape[1] + row if across else row * x.shape[1] + step
    part = [x.reshape(-1), origin, x.shape[1], across, rows - row, steps - step]
    return [*part, lanes, chunk, pieces, words, packed, place, panels, *room]


def _pack_words(
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
    *_: Array,
) -> None:
    lane, step = (origin % max(stride, 1), origin // max(stride, 1))[:: 1 if across else -1]
    x = flat.reshape(-1, stride) if stride else np.zeros((steps if across else rows, 0), flat.dtype)
    part = x[step : step + steps, lane : lane + rows] if across else x[lane : lane + rows, step : step + steps]
    full = np.zeros((panels * lanes, 2 * words), np.float32)
    known = (part.T if across else part)[: len(full), : 2 * words]
    full[: known.shape[0], : known.shape[1]] = known
    _pack_panels(full, False, lanes, chunk, pieces, 0, words, packed[place:], 0, panels)


def _words_in_plain_python(*arguments: Any) -> None:
    packed = arguments[10]
    roomy = np.concatenate([packed, np.zeros(_SPARE, np.uint32)])
    KERNELS["gemm.packing.pack_words"](*arguments[:10], roomy, *arguments[11:])
    packed[:] = roomy[: len(packed)]


def _without_pieces(arguments: Arguments) -> Arguments:
    return [*arguments[:3], *arguments[5:-2]]


def _pack_float32(
    x: Array, across: bool, lanes: int, begin: int, steps: int, packed: Array, start: int, stop: int
) -> None:
    _pack_panels(x, across, lanes, 1, 0, begin, steps, packed, start, stop)


@st.composite
def _square_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, across = numbers(draw, np.float32, 40, 50), draw(st.booleans())
    first, step = draw(st.integers(0, 39)), draw(st.integers(0, 49))
    known = draw(st.integers(0, min(SIDE, 40 - first))), draw(st.integers(0, min(2 * SIDE, 50 - step)))
    lying = _lying(x, across)
    width = lying.shape[1]
    origin = step * width + first if across else first * width + step
    return [lying.reshape(-1), origin, width, across, known, np.full(2 * SIDE * SIDE, UNTOUCHED, np.float32)]


def _copy_square(flat: Array, origin: int, stride: int, across: bool, known: tuple[int, int], square: Array) -> None:
    room = np.zeros((2 * SIDE, SIDE) if across else (SIDE, 2 * SIDE), np.float32)
    height, width = known[::-1] if across else known
    row, column = divmod(origin, stride)
    room[:height, :width] = flat.reshape(-1, stride)[row : row + height, column : column + width]
    square[:] = room.reshape(-1)


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


def _bits_arguments(dtype: Any) -> st.SearchStrategy[Arguments]:
    return st.floats(width=32).map(lambda x: [np.float32(x)])


@st.composite
def _multiply_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    blocks = [block for block in (FLOAT32, BFLOAT16, SPLIT) if block is not None]
    m, n = (draw(st.sampled_from([1, 2, 11, 12, 13, 31, 32, 33, 70])) for _ in range(2))
    k = draw(st.sampled_from([1, 2, 31, 32, 33, 70, 1100]))
    if blocks:
        block = draw(st.sampled_from(blocks))
    else:  # a processor that has no such registers: nothing calls the kernel there, nor does the test
        m, n, block = 0, 0, Block("float32", 1, 1, 1)
    # Small whole numbers, so that every order of a sum gives the same and no bit of a difference is forgiven.
    left, right = (np.round(numbers(draw, np.float32, lines, k, scale=3)) for lines in (m, n))
    a_across, b_across = draw(st.booleans()), draw(st.booleans())
    words = -(-k // 2) if block.pieces else k
    words += -words % block.chunk
    c = np.full(m * n, UNTOUCHED, np.float32)
    sides = (block.rows, block.columns, block.chunk, block.pieces)
    count = -(-m // block.rows) if m > n else -(-n // block.columns)
    part = sorted(draw(st.integers(0, count)) for _ in range(2))
    factors = [_lying(left, a_across), a_across, _lying(right, b_across), b_across]
    return [*factors, c, (m, n), sides, words, draw(st.booleans()), *part]


def _multiply_panels(
    a: Array,
    a_across: bool,
    b: Array,
    b_across: bool,
    c: Array,
    shape: tuple[int, int],
    block: tuple[int, int, int, int],
    words: int,
    add: bool,
    start: int,
    stop: int,
) -> None:
    whole = (a.T if a_across else a) @ (b if b_across else b.T)
    tall, result = shape[0] > shape[1], c.reshape(shape)
    part = slice(start * block[0], stop * block[0]) if tall else slice(start * block[1], stop * block[1])
    where = (part, slice(None)) if tall else (slice(None), part)
    result[where] = whole[where] + (result[where] if add else 0)


MATMUL_TWINS = {
    **{f"gemm.panels.{rung}": Twin(_matrices, _matmul) for rung in ("naive", "loop_order", "blocked", "packed")},
    "gemm.panels._multiply_panels": Twin(_multiply_arguments, _multiply_panels),
    "gemm.packing.pack_float32": Twin(
        lambda dtype: _pack_arguments(np.float32, [0]).map(_without_pieces), _pack_float32
    ),
    "gemm.packing.pack_words": Twin(_words_arguments, _pack_words, _words_in_plain_python, room=2),
    "gemm.packing.pack_panels": Twin(
        lambda dtype: _pack_arguments(np.float32, [0, 1, 3]), _pack_panels, _in_plain_python, room=2
    ),
    "gemm.packing.copy_square": Twin(_square_arguments, _copy_square),
    "gemm.packing.whole_blocks": Twin(_blocks_arguments, _whole_blocks),
    "codegen.bits.bfloat16_bits": Twin(_bits_arguments, lambda x: int(rounded(np.array([x], np.float32))[0])),
    "gemm.rounding._round_rows": Twin(_round_arguments, _round_rows),
}
