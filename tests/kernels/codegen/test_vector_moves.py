"""Copies and transposed blocks in vector registers, compiled and in plain Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from minigrad.kernels.codegen import vector_moves
from minigrad.kernels.codegen.vector_moves import LEFT, RIGHT, SIDE, copy_left, copy_right, copy_small, transpose_block
from minigrad.kernels.cpu import SMALL

Array = NDArray[Any]


@numba.njit
def _transpose(x: Array, start: int, stride: int, y: Array, y_start: int, y_stride: int) -> None:
    transpose_block(x, start, stride, y, y_start, y_stride)


@numba.njit
def _copy(x: Array, start: int, y: Array, y_start: int, which: int) -> None:
    if which == 0:
        copy_left(x, start, y, y_start)
    elif which == 1:
        copy_right(x, start, y, y_start)
    else:
        copy_small(x, start, y, y_start)


def test_the_side_of_a_block_is_a_power_of_two() -> None:
    assert SIDE & (SIDE - 1) == 0  # halves, quarters and so on are exchanged


@pytest.mark.parametrize("types", [("float32", "float32"), ("float32", "uint32"), ("float64", "float64")])
@pytest.mark.parametrize(("stride", "y_stride"), [(SIDE, SIDE), (SIDE + 3, SIDE + 1), (3 * SIDE, SIDE)])
def test_a_block_is_transposed_and_nothing_else_is_written(types: Any, stride: int, y_stride: int) -> None:
    x = np.arange(3 + SIDE * stride).astype(types[0])
    plain, compiled = (np.zeros(5 + SIDE * y_stride, types[1]) for _ in range(2))
    transpose_block(x, 2, stride, plain, 4, y_stride)
    _transpose(x, 2, stride, compiled, 4, y_stride)
    lines = x[2 : 2 + SIDE * stride].reshape(SIDE, stride)[:, :SIDE]
    for y in (plain, compiled):
        block = y[4 : 4 + SIDE * y_stride].reshape(SIDE, y_stride)
        np.testing.assert_array_equal(block[:, :SIDE], lines.T.copy().view(y.dtype))
        block[:, :SIDE] = 0
        assert not y.any()


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("target", [np.float32, np.uint32])
def test_a_copy_moves_the_bits_of_one_step(which: int, target: Any) -> None:
    width, copy = ((LEFT, copy_left), (RIGHT, copy_right), (SMALL.rows, copy_small))[which]
    x = np.random.default_rng(0).normal(size=width + 5).astype(np.float32)
    for call in (lambda *arguments: _copy(*arguments, which), copy):
        y = np.zeros(width + 4, target)
        call(x, 3, y, 2)
        assert y[2:-2].tobytes() == x[3 : 3 + width].tobytes()
        assert not y[:2].any()
        assert not y[-2:].any()


def test_every_width_has_its_own_copier() -> None:
    assert vector_moves._copier(3) is not vector_moves._copier(3)
