"""The largest values of a row, found without sorting it, and a draw from a row of probabilities.

`minigrad.random.generator` makes NumPy's generator for each (seed, purpose, step, index), which takes longer than many
draws from it. Where one number is wanted, as for each generated token, `first_uniform` computes it: Philox4x64 with 10
rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", figure 4), from the same key and counter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.typing import Array

_BLOCK = 64  # probabilities that are added to the sum at a time
_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_UNUSED, _RESOLUTION = np.uint64(11), 2.0**-53  # a float64 has 53 bits


@kernel
def select_largest(values: Array, costs: Array, order: Array, limit: float) -> int:
    """Move the largest values to the front of `order` (int64 indices, rising); return how many there are.

    Taken from the largest on, of equal values the first, a value is among them if the costs of those before it are less
    than `limit`: with costs of 1 that is a number of values, with probabilities a share of the distribution.
    As in quicksort the values are split by one of them; but then only the part that holds the border is split again
    (Hoare 1961, "Algorithm 65: FIND").
    """
    first, stop = 0, len(order)
    before = 0.0  # the costs of order[:first], which are among the largest
    while first < stop:
        middle = (first + stop) // 2
        pivot = order[middle]
        order[middle] = order[stop - 1]
        place, above = first, 0.0
        for i in range(first, stop - 1):
            index = order[i]
            if values[index] > values[pivot] or (values[index] == values[pivot] and index < pivot):
                order[i], order[place] = order[place], index
                place, above = place + 1, above + costs[index]
        order[stop - 1], order[place] = order[place], pivot
        if before + above >= limit:
            stop = place
        else:
            first, before = place + 1, before + above + costs[pivot]
    return first


@kernel
def draw_index(weights: Array, uniform: float) -> int:
    """Return the index at the share `uniform`, from 0 to 1, of the cumulative sum of the weights; its weight is not 0.

    Sums of blocks are computed in vector registers; only the block that holds the index is walked through.
    """
    total = 0.0
    for start in range(0, len(weights), _BLOCK):
        total += _sum(weights[start : start + _BLOCK])
    goal, before, chosen, reached = uniform * total, 0.0, 0, 0.0  # `reached` is the sum before the chosen block
    for start in range(0, len(weights), _BLOCK):
        part = _sum(weights[start : start + _BLOCK])
        if part > 0:
            chosen, reached = start, before
        if before + part > goal:
            break
        before += part
    index = chosen
    for i in range(chosen, min(chosen + _BLOCK, len(weights))):
        if weights[i] > 0:
            index = i
            reached += weights[i]
            if reached > goal:
                break
    return index


@kernel
def _sum(weights: Array) -> float:
    total = 0.0
    for weight in weights:
        total += weight
    return total


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
