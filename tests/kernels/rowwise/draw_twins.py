"""Twins of the counter-based draws and of dropout: a second Philox, by the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.rowwise.dropout import Draws
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers, span, untouched


def philox(counters: Array, stream: tuple[int, int], key: tuple[int, int]) -> Array:
    """Philox4x32-10 on many counters: (n,) -> (n, 4) draws, by the paper's figure 4."""
    low = np.uint64(0xFFFFFFFF)
    counters = counters.astype(np.uint64)
    words = [counters & low, counters >> np.uint64(32), *(np.full_like(counters, word) for word in stream)]
    for _ in range(10):
        words, key = _mixed(words, key)
    return np.stack(words, axis=1)


def _mixed(words: list[Any], key: tuple[int, int]) -> tuple[list[Any], tuple[int, int]]:
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    p0, p1 = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
    words = [p1 >> half ^ words[1] ^ np.uint64(key[0]), p1 & low, p0 >> half ^ words[3] ^ np.uint64(key[1]), p0 & low]
    return words, ((key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32)


def drawn(counters: Array, draws: Draws) -> Array:
    """Return four draws for each counter, one after another."""
    return philox(counters, (draws.step, draws.op_index), (draws.key_low, draws.key_high)).reshape(-1)


@st.composite
def some_draws(draw: DrawFn, dtype: Any, threshold: int) -> Draws:
    """Draw a key and a stream; kept elements are scaled as dropout scales them."""
    low, high, step, index = (draw(st.integers(0, 2**32 - 1)) for _ in range(4))
    first = draw(st.integers(0, 9))
    return Draws(low, high, step, index, first, threshold, dtype(1 / (1 - threshold / 2**32)))


@st.composite
def _philox_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    return [np.uint32(draw(st.integers(0, 2**32 - 1))) for _ in range(6)]


def _philox_round(*given: Any) -> tuple[int, ...]:
    *words, k0, k1 = (int(number) for number in given)
    mixed, key = _mixed([np.uint64(word) for word in words], (k0, k1))
    return (*(int(word) for word in mixed), *key)


@st.composite
def _mask_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    count, block, row = draw(st.integers(0, 11)), draw(st.integers(0, 100)), draw(st.integers(0, 100))
    return [np.full(12, UNTOUCHED, dtype), count, block, row, draw(some_draws(dtype, 2**31))]


def _draw_mask(mask: Array, count: int, block: int, row: int, draws: Draws) -> None:
    blocks = -(-count // 4)  # all four draws of the last counter are written
    counters = (np.arange(block, block + blocks) | row << 32).astype(np.uint64)
    mask[: 4 * blocks] = np.where(drawn(counters, draws) >= draws.threshold, draws.keep_scale, 0)


@st.composite
def _dropout_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    size = draw(st.integers(0, 40) | st.integers(1020, 1030) | st.integers(2046, 2050))
    x = numbers(draw, dtype, 1, size)
    return [x, untouched(x), draw(some_draws(dtype, 2**30)), *span(draw, -(-size // 4))]


def _dropout_blocks(x: Array, y: Array, draws: Draws, start: int, stop: int) -> None:
    part = slice(4 * start, min(4 * stop, x.shape[1]))
    before, count = draws.first % 4, len(x[0, part])
    counters = (draws.first + 4 * start) // 4 + np.arange(-(-(before + count) // 4))
    kept = drawn(counters, draws)[before : before + count] >= draws.threshold
    y[0, part] = np.where(kept, x[0, part] * draws.keep_scale, 0)


@st.composite
def _words(draw: DrawFn, dtype: Any, count: int) -> Arguments:
    return [np.uint64(draw(st.integers(0, 2**64 - 1))) for _ in range(count)]


def _first_uniform(key: Any, step: Any, index: Any) -> float:
    counter = (int(step) << 192) | (int(index) << 128)
    return float(np.random.Generator(np.random.Philox(key=int(key), counter=counter)).random())


TWINS: dict[str, Twin] = {
    "rowwise.dropout.philox_round": Twin(_philox_arguments, _philox_round),
    "rowwise.dropout.draw_mask": Twin(_mask_arguments, _draw_mask),
    "rowwise.selection.upper_half": Twin(lambda dtype: _words(dtype, 2), lambda x, y: int(x) * int(y) >> 64),
    "rowwise.selection.first_uniform": Twin(lambda dtype: _words(dtype, 3), _first_uniform),
    "rowwise.dropout._dropout_blocks": Twin(_dropout_arguments, _dropout_blocks),
}
