"""Philox4x32-10 in plain NumPy, and the dropout masks that follow from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.random import philox_key

Array = NDArray[Any]

LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counters: Array, stream: tuple[int, int], key: tuple[int, int]) -> Array:
    """Return four 32-bit draws (n, 4) for each of n 64-bit counters (Salmon et al. 2011, figure 4).

    `stream` fills the other half of the 128-bit counter.
    """
    counters = counters.astype(np.uint64)
    a, b, c, d = counters & LOW, counters >> HALF, *(np.full_like(counters, word) for word in stream)
    for number in range(10):
        key0 = np.uint64((key[0] + number * 0x9E3779B9) % 2**32)
        key1 = np.uint64((key[1] + number * 0xBB67AE85) % 2**32)
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = second >> HALF ^ b ^ key0, second & LOW, first >> HALF ^ d ^ key1, first & LOW
    return np.stack([a, b, c, d], axis=1)


def kept(counters: Array, probability: float, purpose: str, seed: int, step: int, index: int) -> Array:
    """Return which draws (n, 4) of the counters are kept by a dropout with `probability`."""
    key = philox_key(seed, purpose)
    draws = philox(counters, (step, index), (key & 0xFFFFFFFF, key >> 32))
    result: Array = draws >= round(probability * 2**32)
    return result


def kept_elements(
    shape: tuple[int, ...], probability: float, seed: int = 0, step: int = 0, index: int = 0, first_row: int = 0
) -> Array:
    """Return which elements of an array `ops.dropout` keeps; each counter draws for four neighbours."""
    size, before = math.prod(shape), first_row * (shape[-1] if shape else 1)
    found = kept(np.arange(-(-(before + size) // 4)), probability, "dropout", seed, step, index)
    return found.reshape(-1)[before : before + size].reshape(shape)


def kept_probabilities(
    shape: tuple[int, int, int], dropout: float, seed: int = 0, step: int = 0, index: int = 0, first_row: int = 0
) -> Array:
    """Return which probabilities (rows, heads, keys of the row's sequence) `ops.attention` keeps.

    The upper half of a counter is the number of the row and head, the lower half that of four neighbouring keys.
    """
    rows, num_heads, num_keys = shape
    blocks, numbers = -(-num_keys // 4), first_row * num_heads + np.arange(rows * num_heads)
    counters = (numbers[:, None] << 32) + np.arange(blocks)
    found = kept(counters.reshape(-1), dropout, "attention dropout", seed, step, index)
    return found.reshape(rows, num_heads, 4 * blocks)[:, :, :num_keys]
