"""Products of packed tiles: registers and plain loops give the same, and the sizes fit each other."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad.kernels.attention.tiles import (
    COLUMNS,
    KEYS,
    PAIR_CHUNK,
    ROWS,
    block_product,
    lane_size,
    packed_steps,
    plain_block,
    round_up,
)
from minigrad.kernels.codegen.microkernel import Panel, Target
from minigrad.kernels.cpu import SMALL
from tests.kernels.machine_code import vector_loads

Array = NDArray[Any]


def test_a_tile_of_keys_is_whole_blocks() -> None:
    assert KEYS % COLUMNS == 0
    assert COLUMNS % ROWS == 0
    assert ROWS % 4 == 0  # the softmax takes four keys at a time


@numba.njit
def _product(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    block_product(left, right, depth, target, add)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(depth=st.integers(1, 40), add=st.booleans(), seed=st.integers(0, 99))
def test_registers_and_plain_loops_give_the_same_block(dtype: Any, depth: int, add: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)  # small whole numbers: every order of a sum gives the same
    left, right = (Panel(rng.integers(-8, 9, 2 + depth * side).astype(dtype), 2) for side in (ROWS, COLUMNS))
    before = rng.integers(-8, 9, 1 + ROWS * COLUMNS).astype(dtype)
    targets = [Target(before.copy(), 1, COLUMNS) for _ in range(2)]
    _product(left, right, depth, targets[0], add)
    plain_block(left, right, depth, targets[1], add)
    np.testing.assert_array_equal(targets[0].elements, targets[1].elements)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize(("dtype", "name"), [(numba.float32, "float"), (numba.float64, "double")])
def test_plain_loops_multiply_whole_lines(dtype: Any, name: str) -> None:
    panel = numba.types.NamedTuple((dtype[::1], numba.int64), Panel)
    target = numba.types.NamedTuple((dtype[::1], numba.int64, numba.int64), Target)
    loads = vector_loads(plain_block, (panel, panel, numba.int64, target, numba.boolean))
    assert any(kind.endswith(f" {name}>") for kind in loads)


@numba.njit
def _sizes(factor: Array, steps: int) -> tuple[int, int]:
    return packed_steps(factor, steps), lane_size(factor, steps)


@pytest.mark.parametrize("steps", [1, 31, 32, 33, 100])
def test_elements_take_a_place_each_and_words_hold_two_steps(steps: int) -> None:
    assert _sizes(np.zeros(0), steps) == (packed_steps(np.zeros(0), steps), lane_size(np.zeros(0), steps))
    assert _sizes(np.zeros(0, np.float32), steps) == (steps, steps)
    if not numba.config.DISABLE_JIT:
        words = -(-steps // (2 * SMALL.chunk)) * SMALL.chunk
        assert _sizes(np.zeros(0, np.uint32), steps) == (words, words * SMALL.parts)
        pairs = -(-steps // (2 * PAIR_CHUNK)) * PAIR_CHUNK
        assert _sizes(np.zeros(0, np.int32), steps) == (pairs, pairs)


@given(st.integers(0, 10**6), st.integers(1, 100))
def test_rounding_up_gives_the_next_multiple(number: int, multiple: int) -> None:
    assert 0 <= round_up(number, multiple) - number < multiple
    assert round_up(number, multiple) % multiple == 0
