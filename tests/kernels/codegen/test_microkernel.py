"""The product of two panels in registers: compiled, it is that of plain Python, in every block of this processor."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad.kernels.codegen.amx import TILE_CONFIGURATION, configure_tiles, release_tiles
from minigrad.kernels.codegen.microkernel import Panel, Target, _multiplier, multiply_block, small_block
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SMALL, SMALL_VECTORS, SPLIT, Block

Array = NDArray[Any]
BLOCKS = [block for block in (FLOAT32, BFLOAT16, SPLIT) if block is not None]


@numba.njit
def _multiply(left: Panel, right: Panel, depth: int, parts: int, target: Target, add: bool) -> None:
    configure_tiles(TILE_CONFIGURATION)
    multiply_block(left, right, depth, parts, target, add)
    release_tiles()


@numba.njit
def _multiply_small(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    configure_tiles(TILE_CONFIGURATION)
    small_block(left, right, depth, target, add)
    release_tiles()


def words(rng: np.random.Generator, size: int, parts: int) -> Array:
    """Draw words of small whole numbers: float32, or two bfloat16; every order of a sum then gives the same."""
    if parts == 0:
        return rng.integers(-8, 9, size).astype(np.float32).view(np.uint32)
    low, high = (rng.integers(-8, 9, size).astype(np.float32).view(np.uint32) for _ in range(2))
    return low >> np.uint32(16) | high


@pytest.mark.skipif(not BLOCKS, reason="this processor has no block in registers")
@given(
    block=st.sampled_from(BLOCKS or [None]),
    steps=st.integers(1, 5),
    add=st.booleans(),
    excess=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_compiled_and_plain_give_the_same_block(block: Block, steps: int, add: bool, excess: int, seed: int) -> None:
    rng, count = np.random.default_rng(seed), max(block.parts, 1)
    depth = steps * block.chunk if block.parts < 2 else steps * 16
    left = Panel(words(rng, 3 + depth * count * block.rows, block.parts), 3)
    right = Panel(words(rng, 1 + depth * count * block.columns, block.parts), 1)
    stride = block.columns + excess
    before = rng.integers(-8, 9, 2 + block.rows * stride).astype(np.float32)
    plain, compiled = Target(before.copy(), 2, stride), Target(before.copy(), 2, stride)
    multiply_block(left, right, depth, block.parts, plain, add)
    _multiply(left, right, depth, block.parts, compiled, add)
    np.testing.assert_array_equal(compiled.elements, plain.elements)
    beside = before[2:].reshape(block.rows, stride)[:, block.columns :]
    np.testing.assert_array_equal(compiled.elements[2:].reshape(block.rows, stride)[:, block.columns :], beside)


@pytest.mark.skipif(FLOAT32 is None, reason="this processor has no small block of float32")
@given(depth=st.integers(1, 40), add=st.booleans(), seed=st.integers(0, 99))
def test_the_small_block_multiplies_elements(depth: int, add: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-8, 9, (depth, side)).astype(np.float32) for side in (SMALL.rows, SMALL.columns))
    c = rng.integers(-8, 9, (SMALL_VECTORS.rows, SMALL.columns)).astype(np.float32)
    target = Target(c.copy().reshape(-1), 0, SMALL.columns)
    _multiply_small(Panel(a.reshape(-1), 0), Panel(b.reshape(-1), 0), depth, target, add)
    wanted = (a.T @ b)[: SMALL_VECTORS.rows] + (c if add else 0)
    np.testing.assert_array_equal(target.elements.reshape(c.shape), wanted)


_small_part = _multiplier(SMALL_VECTORS if FLOAT32 is not None else None, 4 * SMALL_VECTORS.rows)


@numba.njit
def _multiply_part(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    _small_part(left, right, depth, target, add)


@pytest.mark.skipif(FLOAT32 is None or numba.config.DISABLE_JIT, reason="this processor has no small block of float32")
@given(depth=st.integers(1, 40), part=st.integers(0, 3), seed=st.integers(0, 99))
def test_a_part_of_the_rows_of_a_left_panel_is_multiplied(depth: int, part: int, seed: int) -> None:
    """Where tiles are higher than the small block, several blocks of elements make up a tile."""
    rng, height = np.random.default_rng(seed), SMALL_VECTORS.rows
    a, b = (rng.integers(-8, 9, (depth, side)).astype(np.float32) for side in (4 * height, SMALL_VECTORS.columns))
    target = Target(np.zeros(height * b.shape[1], np.float32), 0, b.shape[1])
    _multiply_part(Panel(a.reshape(-1), part * height), Panel(b.reshape(-1), 0), depth, target, False)
    wanted = a[:, part * height : (part + 1) * height].T @ b
    np.testing.assert_array_equal(target.elements.reshape(wanted.shape), wanted)
