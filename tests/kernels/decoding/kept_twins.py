"""Twins of rows that a cache keeps: rounded and widened in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.codegen.line_tile import BFLOAT16, FULL, INT8
from minigrad.kernels.decoding.kept import FORMATS, Kept, empty_rows
from tests.kernels.twin import Arguments, Array, Twin, numbers

SIZES = st.sampled_from([1, 2, 6, 32, 64])  # the last two are widened eight numbers at a time


def slow_half(size: int) -> Array:
    half, found = size // 2, np.zeros(size, bool)
    found[half // 2 : half] = found[half + half // 2 :] = True
    return found


def _rounded(x: Any) -> Any:
    """Return the bits of floats rounded to bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _floats(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def packed(x: Array, format: int) -> Array:
    """Return rows x (..., size) as they are kept in a format."""
    if format == FULL:
        return x
    if format == BFLOAT16:
        return _rounded(x)
    x, slow = x.astype(np.float32), slow_half(x.shape[-1])
    found = np.zeros((*x.shape[:-1], x.shape[-1] + 4), np.int8)
    scales = _rounded(np.stack([np.abs(x[..., half]).max(-1, initial=0) for half in (~slow, slow)], -1) / 127)
    by_element = np.where(slow, _floats(scales)[..., 1:], _floats(scales)[..., :1])
    is_large = by_element > 1e-38
    found[..., :-4] = np.where(is_large, np.rint(x * (1 / np.where(is_large, by_element, 1))), 0).clip(-127, 127)
    found[..., -4:] = scales.view(np.int8)
    return found


def floats_of(kept: Kept, dtype: Any) -> Array:
    """Return all rows as floats, (texts of all layers, positions, heads, size)."""
    rows = rows_of(kept, dtype)
    if kept.format == INT8:
        scales = _floats(np.ascontiguousarray(rows[..., -4:]).view(np.uint16))
        return (rows[..., :-4] * np.where(slow_half(kept.size), scales[..., 1:], scales[..., :1])).astype(dtype)
    return rows if kept.format == FULL else _floats(rows).astype(dtype)


def rows_of(kept: Kept, dtype: Any) -> Array:
    """Return a view of all rows as they are kept."""
    kind = {FULL: dtype, BFLOAT16: np.uint16, INT8: np.int8}[kept.format]
    width = kept.size + 4 * (kept.format == INT8)
    return kept.memory.view(kind).reshape(-1, kept.positions, kept.heads, width)


def write(kept: Kept, new: Array, number: int, slow: int) -> None:
    """Keep a token (heads, size), by its number in all texts, and its slow half as another one."""
    rows = rows_of(kept, new.dtype).reshape(-1, *rows_of(kept, new.dtype).shape[2:])
    later = slow_half(kept.size)
    if kept.format == INT8:
        later = np.append(later, [False, False, True, True])
    for columns, token in ((~later, number), (later, slow)):
        if token >= 0:
            rows[token][:, columns] = packed(new, kept.format)[:, columns]


def drawn_kept(draw: DrawFn, x: Array, formats: tuple[str, ...] = FORMATS) -> Kept:
    """Return rows x (layers, texts, positions, heads, size) in a drawn format."""
    rows = empty_rows(draw(st.sampled_from(formats)), x.shape, x.dtype)
    rows[:] = packed(x, Kept.of(rows).format)
    return Kept.of(rows)


@st.composite
def _kept_rows(draw: DrawFn, dtype: Any, formats: tuple[str, ...] = FORMATS) -> Kept:
    return drawn_kept(draw, numbers(draw, dtype, 2, 2, 5, draw(st.integers(1, 3)), draw(SIZES)), formats)


@st.composite
def _tokens(draw: DrawFn, dtype: Any) -> Arguments:
    kept, count = draw(_kept_rows(dtype)), draw(st.integers(0, 6))
    places = draw(st.permutations(range(18)))[:count]
    shifts = draw(st.booleans())
    slow = [(place + 1 if place % 5 < 4 else -1) if shifts else place for place in places]
    start, stop = sorted((draw(st.integers(0, count)), draw(st.integers(0, count))))
    x = numbers(draw, dtype, count, kept.heads, kept.size)
    return [x, kept, np.array(places, np.int64), np.array(slow, np.int64), start, stop]


def _keep_tokens(x: Array, kept: Kept, places: Array, slow: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        write(kept, x[i], places[i], slow[i])


@st.composite
def _one_row(draw: DrawFn, dtype: Any) -> Arguments:
    kept = draw(_kept_rows(dtype))
    row = draw(st.integers(0, 18 * kept.heads))
    return [numbers(draw, dtype, kept.size), kept, row, draw(st.sampled_from([row, -1, row + kept.heads]))]


def _keep(x: Array, kept: Kept, row: int, slow_row: int) -> None:
    one_head = kept._replace(positions=kept.positions * kept.heads, heads=1)
    write(one_head, x[None], row, slow_row)


@st.composite
def _quarters(draw: DrawFn, dtype: Any) -> Arguments:
    return [draw(st.integers(0, 3)), draw(st.integers(1, 70))]


def _quarter(number: int, size: int) -> tuple[int, int]:
    half = size // 2
    cuts = [0, half // 2, half, half + half // 2, size]
    return cuts[number], cuts[number + 1]


@st.composite
def _scaled(draw: DrawFn, dtype: Any) -> Arguments:
    return [numbers(draw, dtype, 12), (0, draw(st.integers(0, 4))), (draw(st.integers(6, 9)), 9)]


def _scale_of(x: Array, first: tuple[int, int], last: tuple[int, int]) -> Any:
    return np.abs(np.append(x[slice(*first)], x[slice(*last)])).max(initial=0) / 127


@st.composite
def _widened_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    kept = draw(_kept_rows(dtype))
    start, stop = sorted((draw(st.integers(0, 5)), draw(st.integers(0, 5))))
    return [kept, draw(st.integers(0, 3)), start, stop, (0, kept.heads), np.zeros(1, dtype)]


def _widened(kept: Kept, text: int, start: int, stop: int, heads: tuple[int, int], like: Array) -> Array:
    return floats_of(kept, like.dtype)[text, start:stop]


@st.composite
def _widened_rows(draw: DrawFn, dtype: Any) -> Arguments:
    kept = draw(_kept_rows(dtype, FORMATS[1:]))
    count, first = draw(st.integers(0, 4)), draw(st.integers(0, 16))
    heads = sorted((draw(st.integers(0, kept.heads)), draw(st.integers(0, kept.heads))))
    return [kept, first * kept.heads, tuple(heads), np.full((count, kept.heads, kept.size), 7, dtype)]


def _widen_rows(kept: Kept, first: int, heads: tuple[int, int], out: Array) -> None:
    rows = floats_of(kept, out.dtype).reshape(-1, kept.heads, kept.size)[first // kept.heads :][: len(out)]
    out[:, slice(*heads)] = rows[:, slice(*heads)]


@st.composite
def _one_kept(draw: DrawFn, dtype: Any) -> Arguments:
    return [draw(_kept_rows(dtype, FORMATS[1:]))]


def row_bytes(kept: Kept) -> int:
    """Return the bytes of a row; of floats, those of float32."""
    return {FULL: 4 * kept.size, BFLOAT16: 2 * kept.size, INT8: kept.size + 4}[kept.format]


@st.composite
def _one_size(draw: DrawFn, dtype: Any) -> Arguments:
    return [draw(SIZES)]


def _has_second_scale(size: int) -> tuple[Array]:
    return (slow_half(size).astype(np.int8),)


TWINS: dict[str, Twin] = {
    "decoding.kept.row_bytes": Twin(_one_kept, row_bytes),
    "decoding.kept.has_second_scale": Twin(_one_size, _has_second_scale),
    "decoding.kept.keep_tokens": Twin(_tokens, _keep_tokens),
    "decoding.kept.keep": Twin(_one_row, _keep),
    "decoding.kept.quarter": Twin(_quarters, _quarter),
    "decoding.kept.scale_of": Twin(_scaled, _scale_of, error=1e-6),
    "decoding.kept.widened": Twin(_widened_arguments, _widened),
    "decoding.kept.widen_rows": Twin(_widened_rows, _widen_rows),
}
