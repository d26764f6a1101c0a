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
        c0, c1, c2, c3 = np.uint32(block & 0xFFFFFFFF), np.uint32(block >> 32), words[2], words[3]
        k0, k1 = words[0], words[1]
        for _ in range(10):
            p0, p1 = _M0 * np.uint64(c0), _M1 * np.uint64(c2)
            high0, low0 = np.uint32(p0 >> _SHIFT), np.uint32(p0 & _LOW)
            high1, low1 = np.uint32(p1 >> _SHIFT), np.uint32(p1 & _LOW)
            c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
            k0 = np.uint32((np.uint64(k0) + _W0) & _LOW)
            k1 = np.uint32((np.uint64(k1) + _W1) & _LOW)
        first = 4 * block
        last = min(first + 4, x.shape[1])
        for i in range(first, last):
            word = c0 if i == first else c1 if i == first + 1 else c2 if i == first + 2 else c3
            y[0, i] = x[0, i] * scale if word >= threshold else zero


def dropout(x: Array, probability: float, key: int, step: int, index: int) -> Array:
    """Set each number to 0 with `probability`, else divide it by 1 - `probability`.

    Which numbers go is a function of (`key`, `step`, `index`) and their place in `x`. `key` has 64 bits, `step` and
    `index` 32 bits each.
    """
    row = rows_of(x, x.size)
    y = np.empty_like(row)
    words = np.array([value & 0xFFFFFFFF for value in (key, key >> 32, step, index)], dtype=np.uint32)
    threshold, scale = round(probability * 2**32), x.dtype.type(1 / (1 - probability))
    over_rows(lambda start, stop: _dropout_blocks(row, y, words, threshold, scale, start, stop), -(-x.size // 4), 80)
    return y.reshape(x.shape)
