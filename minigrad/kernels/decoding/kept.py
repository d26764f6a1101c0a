"""Keys and values as a cache keeps them: floats, or numbers of 16 or 8 bits, which are widened as they are read.

Writing a token reads every key and value of the text, so in fewer bits a long text is written sooner, and takes less
memory. A row is the key or the value of one token and head. In bfloat16 it is rounded to 16 bits. In int8 it is whole
numbers from -127 to 127 times a scale: the largest size of a number over 127, rounded to bfloat16.

A row in int8 has two scales, because the slow half of a key may be stored with the next token (see `ops.key_shift`):
one for the first and the third quarter of the row, and one for the slow half, the second and the fourth. What is kept
of a token thus depends on that token alone. The scales follow the numbers, two bytes each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from minigrad.kernels.codegen.addresses import elements_at
from minigrad.kernels.codegen.bits import bfloat16_bits, float32_of
from minigrad.kernels.codegen.line_tile import BFLOAT16, FULL, INT8
from minigrad.kernels.codegen.widening import LANES, widen_together
from minigrad.kernels.jit import allocating, kernel
from minigrad.kernels.threads import over_rows
from minigrad.options import unknown
from minigrad.typing import Array

FORMATS = ("float32", "bfloat16", "int8")
"""The formats by name; float32 keeps the floats of the model as they are."""

_SCALES = 4  # bytes
_LEAST_SCALE = np.float32(1e-38)  # the inverse of a smaller one may be infinite: such rows are kept as zeros


class Kept(NamedTuple):
    """The rows of all layers and texts: (layers, texts, positions, heads) of `size` elements each."""

    format: int  # FULL, BFLOAT16 or INT8
    memory: Array  # all bytes, uint8
    texts: int
    positions: int
    heads: int
    size: int

    @classmethod
    def of(cls, rows: Array) -> Kept:
        """Return rows as `empty_rows` made them, (layers, texts, positions, heads, ...); the memory is shared."""
        _, texts, positions, heads, width = rows.shape
        format = {"uint16": BFLOAT16, "int8": INT8}.get(rows.dtype.name, FULL)
        size = width - _SCALES if format == INT8 else width
        return cls(format, rows.reshape(-1).view(np.uint8), texts, positions, heads, size)


def empty_rows(format: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return rows of zeros; shape (..., size), dtype that of the model. Raises InputError for an unknown format."""
    if format not in FORMATS:
        raise unknown("format of a cache", format, FORMATS)
    if format == "int8":
        return np.zeros((*shape[:-1], shape[-1] + _SCALES), np.int8)
    return np.zeros(shape, np.uint16 if format == "bfloat16" else dtype)


def keep_rows(x: Array, kept: Kept, numbers: Array, slow: Array) -> None:
    """Keep x (n, heads, size) as the tokens `numbers` (n,) of all layers and texts, their slow halves as `slow`.

    The slow half of a token whose number in `slow` is negative is not kept.
    """
    x = np.ascontiguousarray(x)
    over_rows(lambda start, stop: keep_tokens(x, kept, numbers, slow, start, stop), len(x), 8 * x[:1].size)


@kernel
def keep_tokens(x: Array, kept: Kept, numbers: Array, slow: Array, start: int, stop: int) -> None:
    """Keep the tokens from `start` to `stop`; see `keep_rows`."""
    for i in range(start, stop):
        for head in range(kept.heads):
            keep(x[i, head], kept, numbers[i] * kept.heads + head, slow[i] * kept.heads + head)


@kernel
def keep(x: Array, kept: Kept, row: int, slow_row: int) -> None:
    """Keep x (size,) in a row, and its slow half in another one, or the same, or none, if its number is negative."""
    for half in range(2):
        into, first, last = slow_row if half else row, quarter(half, x.size), quarter(half + 2, x.size)
        if into < 0:
            continue
        if kept.format == FULL:
            out = elements_at(kept.memory.ctypes.data + into * x.nbytes, x.size, x.dtype)
            for begin, end in (first, last):
                for j in range(begin, end):
                    out[j] = x[j]
        elif kept.format == BFLOAT16:
            bits = elements_at(kept.memory.ctypes.data + into * 2 * x.size, x.size, np.uint16)
            for begin, end in (first, last):
                for j in range(begin, end):
                    bits[j] = bfloat16_bits(np.float32(x[j]))  # type: ignore[arg-type]
        else:
            place = kept.memory.ctypes.data + into * (x.size + _SCALES)
            numbers = elements_at(place, x.size, np.int8)
            scales = elements_at(place + x.size, 2, np.uint16)
            scales[half] = bfloat16_bits(scale_of(x, first, last))
            scale = float32_of(np.uint32(scales[half]) << np.uint32(16))
            # A product and no quotient: a compiler may divide in several ways, and halves would round in several ways.
            inverse = np.float32(1) / scale if scale > _LEAST_SCALE else np.float32(0)
            for begin, end in (first, last):
                for j in range(begin, end):
                    number = np.rint(np.float32(x[j]) * inverse) if inverse > 0 else np.float32(0)
                    numbers[j] = np.int8(min(max(number, np.float32(-127)), np.float32(127)))


@kernel
def quarter(number: int, size: int) -> tuple[int, int]:
    """Return where a quarter of a row begins and ends.

    Elements j and j + size / 2 rotate together, and faster for small j: so the second and the fourth quarter are the
    slow half.
    """
    half = size // 2
    begin = half * (number // 2) + half // 2 * (number % 2)
    end = begin + half // 2 if number % 2 == 0 else half if number == 1 else size
    return begin, end


@kernel
def row_bytes(kept: Kept) -> int:
    """Return the bytes of a row in bfloat16 or int8."""
    return kept.size + _SCALES if kept.format == INT8 else 2 * kept.size


@allocating
def has_second_scale(size: int) -> Array:
    """Return for each element of a row (size,) int8: 1 if it uses the second scale, that of the slow half, else 0."""
    found = np.zeros(size, np.int8)
    for part in (1, 3):
        begin, end = quarter(part, size)
        found[begin:end] = 1
    return found


@kernel
def scale_of(x: Array, first: tuple[int, int], last: tuple[int, int]) -> Any:
    """Return the largest size of a number in two parts of x, over 127; NaN if one of them is not finite."""
    largest, unless_finite = np.float32(0), np.float32(0)
    for begin, end in (first, last):
        for j in range(begin, end):
            largest = max(largest, abs(np.float32(x[j])))
            unless_finite += np.float32(x[j]) * np.float32(0)
    return largest / np.float32(127) + unless_finite


@allocating
def widened(kept: Kept, text: int, start: int, stop: int, heads: tuple[int, int], like: Array) -> Array:
    """Return the rows of a text's tokens from `start` to `stop`, (tokens, heads, size) in the type of `like`.

    `text` counts the texts of all layers. Only rows of heads[0] to heads[1] are set; floats are read where they lie.
    """
    first, count = (text * kept.positions + start) * kept.heads, (stop - start) * kept.heads
    if kept.format == FULL:
        lying = elements_at(kept.memory.ctypes.data + first * kept.size * like.itemsize, count * kept.size, like.dtype)
        return lying.reshape(stop - start, kept.heads, kept.size)
    out = np.empty((stop - start, kept.heads, kept.size), like.dtype)
    widen_rows(kept, first, heads, out)
    return out


@kernel
def widen_rows(kept: Kept, first: int, heads: tuple[int, int], out: Array) -> None:
    """Set out (tokens, heads, size) to rows in bfloat16 or int8, from row `first` on, of heads[0] to heads[1]."""
    quarters = kept.size // 4
    is_even = kept.size % 4 == 0 and quarters % LANES == 0
    for token in range(out.shape[0]):
        for head in range(heads[0], heads[1]):
            row, widest = first + token * kept.heads + head, out[token, head]
            if kept.format == BFLOAT16:
                bits = elements_at(kept.memory.ctypes.data + row * 2 * kept.size, kept.size, np.uint16)
                for j in range(widest.size):
                    widest[j] = float32_of(np.uint32(bits[j]) << np.uint32(16))
                continue
            place = kept.memory.ctypes.data + row * (kept.size + _SCALES)
            numbers, scales = elements_at(place, kept.size, np.int8), elements_at(place + kept.size, 2, np.uint16)
            if is_even:
                for j in range(0, kept.size, LANES):
                    widen_together(numbers, j, scales, j // quarters % 2, widest)
            else:
                for part in range(4):
                    scale = float32_of(np.uint32(scales[part % 2]) << np.uint32(16))
                    begin, end = quarter(part, kept.size)
                    for j in range(begin, end):
                        widest[j] = np.float32(numbers[j]) * scale


def widened_texts(kept: Kept, layer: int, counts: Array, dtype: DTypeLike) -> Array:
    """Return the first counts[s] rows of each text s of a layer, packed: (sum of counts, heads, size)."""
    ends = np.cumsum(counts)
    out = np.empty((int(ends[-1]), kept.heads, kept.size), dtype)
    for text in np.flatnonzero(counts):
        part, first = out[ends[text] - counts[text] : ends[text]], (layer * kept.texts + text) * kept.positions

        def loop(start: int, stop: int, part: Array = part, first: int = int(first)) -> None:
            widen_rows(kept, (first + start) * kept.heads, (0, kept.heads), part[start:stop])

        over_rows(loop, len(part), part[:1].size)
    return out
