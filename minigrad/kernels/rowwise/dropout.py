"""A counter-based random generator, and dropout.

Philox4x32 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") mixes a counter with a
key: four 32-bit draws per counter, and no state is passed from one draw to the next. The mask of an element is a
function of its place in the batch alone, so any thread, and any replica of a model, can draw any part of it; and the
backward pass draws it again, so it is not stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minigrad.kernels.jit import allocating, kernel
from minigrad.kernels.rows import rows_of
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

_M0, _M1, _LOW, _SHIFT = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57), np.uint64(0xFFFFFFFF), np.uint64(32)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_SEGMENT = 1_024  # elements whose mask is drawn at a time: few enough to stay in the first-level cache


class Draws(NamedTuple):
    """A stream of draws, and how they become a mask."""

    key_low: int  # 32 bits each
    key_high: int
    step: int
    op_index: int
    first: int  # the place in the batch of the first element (of attention: of the first query row)
    threshold: int  # a draw below it drops the element
    keep_scale: float  # the mask of an element that is kept: 1 / (1 - probability)


@kernel
def philox_round(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Do one of ten rounds: mix a counter of four 32-bit integers with a key of two; return both for the next round."""
    p0, p1 = _M0 * np.uint64(c0), _M1 * np.uint64(c2)
    high0, low0 = np.uint32(p0 >> _SHIFT), np.uint32(p0 & _LOW)
    high1, low1 = np.uint32(p1 >> _SHIFT), np.uint32(p1 & _LOW)
    next0, next1 = np.uint32((np.uint64(k0) + _W0) & _LOW), np.uint32((np.uint64(k1) + _W1) & _LOW)
    return np.uint32(high1 ^ c1 ^ k0), low1, np.uint32(high0 ^ c3 ^ k1), low0, next0, next1


@kernel
def draw_mask(mask: Array, count: int, block: int, row: int, draws: Draws) -> None:
    """Fill mask[:count] with 0 or `keep_scale`, by draws of the counters (block, row), (block + 1, row) and so on.

    A counter gives four draws, and all of the last counter's are written: the mask needs capacity for them.
    """
    key_low, key_high, step, op_index, _, threshold, scale = draws
    zero, limit = mask.dtype.type(0), np.uint32(threshold)
    for j in range(-(-count // 4)):
        # Ten rounds in place, on four variables and without branches, so LLVM vectorises across counters.
        c0, c1, c2, c3 = np.uint32(block + j), np.uint32(row), np.uint32(step), np.uint32(op_index)
        k0, k1 = np.uint32(key_low), np.uint32(key_high)
        for _ in range(10):
            c0, c1, c2, c3, k0, k1 = philox_round(c0, c1, c2, c3, k0, k1)
        mask[4 * j] = scale if c0 >= limit else zero
        mask[4 * j + 1] = scale if c1 >= limit else zero
        mask[4 * j + 2] = scale if c2 >= limit else zero
        mask[4 * j + 3] = scale if c3 >= limit else zero


@allocating
def _dropout_blocks(x: Array, y: Array, draws: Draws, start: int, stop: int) -> None:
    zero, mask = x.dtype.type(0), np.empty(_SEGMENT + 4, x.dtype)
    skipped = draws.first % 4  # draws of the first counter that belong to the elements before
    for first in range(4 * start, min(4 * stop, x.shape[1]), _SEGMENT):
        part, block = slice(first, min(first + _SEGMENT, 4 * stop)), (draws.first + first) // 4
        xs, ys = x[0, part], y[0, part]
        draw_mask(mask, skipped + xs.size, block & 0xFFFFFFFF, block >> 32, draws)
        for i in range(xs.size):
            ys[i] = xs[i] * mask[skipped + i] if mask[skipped + i] > zero else zero  # infinity too


class Stream(NamedTuple):
    """The numbers that choose a stream of draws, and where in it an array begins."""

    key: int  # 64 bits
    step: int = 0  # 32 bits
    op_index: int = 0  # 32 bits
    first: int = 0  # the place in the batch of the first element (of attention: of the first query row)


def draws_of(probability: float, stream: Stream, dtype: Any) -> Draws:
    """Return the draws of a stream, for masks of type `dtype`."""
    low, threshold, keep_scale = 0xFFFFFFFF, min(round(probability * 2**32), 2**32 - 1), 1 / (1 - probability)
    key, step, op_index, first = stream
    return Draws(key & low, key >> 32 & low, step & low, op_index & low, first, threshold, dtype.type(keep_scale))


def dropout(x: Array, probability: float, stream: Stream) -> Array:
    """Set each element to 0 with `probability`, otherwise divide it by 1 - `probability`.

    Which elements are dropped is a function of the key, step and op_index of the stream and of the place of an element,
    which is `stream.first` for the first of `x`.
    """
    row = rows_of(x, x.size)
    y, draws = np.empty_like(row), draws_of(probability, stream, x.dtype)
    over_rows(lambda start, stop: _dropout_blocks(row, y, draws, start, stop), -(-x.size // 4), 10)
    return y.reshape(x.shape)
