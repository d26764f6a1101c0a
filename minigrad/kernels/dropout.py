"""A counter-based random generator, and dropout on top of it.

Philox4x32 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") mixes a counter with a
key: four 32-bit numbers per counter, with no state that one draw hands to the next. The mask of element i is a
function of i alone, so any thread can draw any part of it, and the backward pass draws it again instead of keeping it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.kernels import kernel, rows_of
from minigrad.kernels.threads import over_rows

Array = NDArray[Any]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


@kernel
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Mix a counter of four 32-bit numbers with a key of two; every bit of the result depends on all of them."""
    a, b, c, d = np.uint32(c0), np.uint32(c1), np.uint32(c2), np.uint32(c3)
    for _ in range(10):
        p0, p1 = _M0 * np.uint64(a), _M1 * np.uint64(c)
        high0, low0 = np.uint32(p0 >> _SHIFT), np.uint32(p0 & _LOW)
        high1, low1 = np.uint32(p1 >> _SHIFT), np.uint32(p1 & _LOW)
        a, b, c, d = high1 ^ b ^ np.uint32(k0), low1, high0 ^ d ^ np.uint32(k1), low0
        k0 = np.uint32((np.uint64(k0) + _W0) & _LOW)
        k1 = np.uint32((np.uint64(k1) + _W1) & _LOW)
    return a, b, c, d


@kernel
def _dropout_blocks(
    x: Array,
    y: Array,
    words: Array,
    threshold: int,
    scale: float,
    start: int,
    stop: int,
) -> None:
    zero = x.dtype.type(0)
    for block in range(start, stop):
        low, high = np.uint32(block & 0xFFFFFFFF), np.uint32(block >> 32)
        c0, c1, c2, c3 = philox(low, high, words[2], words[3], words[0], words[1])
        first = 4 * block
        last = min(first + 4, x.shape[1])
        for i in range(first, last):
            word = c0 if i == first else c1 if i == first + 1 else c2 if i == first + 2 else c3
            y[0, i] = x[0, i] * scale if word >= threshold else zero


@kernel
def draw_mask(mask: Array, count: int, block: int, row: int, words: Array, threshold: int, scale: float) -> None:
    """Fill mask[:count] with 0 or `scale`: draws of the counters (block, row), (block + 1, row) and so on."""
    zero = mask.dtype.type(0)
    for first in range(0, count, 4):
        c0, c1, c2, c3 = philox(np.uint32(block + first // 4), np.uint32(row), words[2], words[3], words[0], words[1])
        for i in range(first, min(first + 4, count)):
            word = c0 if i == first else c1 if i == first + 1 else c2 if i == first + 2 else c3
            mask[i] = scale if word >= threshold else zero


def draws_of(probability: float, key: int, step: int, index: int) -> tuple[Array, int]:
    """Return what the loops need: key and counter as 32-bit words, and the number below which a draw drops."""
    words = np.array([value & 0xFFFFFFFF for value in (key, key >> 32, step, index)], dtype=np.uint32)
    return words, round(probability * 2**32)


def dropout(x: Array, probability: float, key: int, step: int, index: int) -> Array:
    """Set each number to 0 with `probability`, else divide it by 1 - `probability`.

    Which numbers go is a function of (`key`, `step`, `index`) and their place in `x`. `key` has 64 bits, `step` and
    `index` 32 bits each.
    """
    row = rows_of(x, x.size)
    y = np.empty_like(row)
    words, threshold = draws_of(probability, key, step, index)
    scale = x.dtype.type(1 / (1 - probability))
    over_rows(lambda start, stop: _dropout_blocks(row, y, words, threshold, scale, start, stop), -(-x.size // 4), 80)
    return y.reshape(x.shape)
