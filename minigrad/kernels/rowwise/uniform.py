"""The first random number of a generator, without making one.

`minigrad.random.generator` makes NumPy's generator for each (seed, purpose, step, index), which takes longer than many
draws from it. Where one number is wanted, as for each generated token, this computes it: Philox4x64 with 10 rounds
(Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", figure 4), from the same key and counter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.jit import kernel

_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_UNUSED, _RESOLUTION = np.uint64(11), 2.0**-53  # a float64 has 53 bits


@kernel
def upper_half(x: Any, y: Any) -> Any:
    """Return the upper 64 bits of the product of two 64-bit integers, from products of their halves."""
    x0, x1, y0, y1 = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
    middle = x1 * y0 + (x0 * y0 >> _HALF)
    return x1 * y1 + (middle >> _HALF) + (x0 * y1 + (middle & _LOW) >> _HALF)


@kernel
def first_uniform(key: Any, step: Any, index: Any) -> float:
    """Return ``generator(...).random()``, from 0 to below 1, given the 64-bit key, step and index of the generator."""
    k0, k1 = key, np.uint64(0)
    c0, c1, c2, c3 = np.uint64(1), np.uint64(0), index, step  # NumPy adds 1 to its counter before it draws
    for _ in range(10):
        c0, c1, c2, c3 = upper_half(_M1, c2) ^ c1 ^ k0, _M1 * c2, upper_half(_M0, c0) ^ c3 ^ k1, _M0 * c0
        k0, k1 = k0 + _W0, k1 + _W1
    return float(c0 >> _UNUSED) * _RESOLUTION
