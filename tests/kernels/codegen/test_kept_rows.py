"""Rows in 16 and 8 bits are multiplied as the floats that they stand for, for one query head and for three."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.codegen.kept_rows import HEADS, ROWS, Rows, add_rows, score_rows
from minigrad.kernels.codegen.line_tile import BFLOAT16, INT8
from minigrad.typing import Array

APART = 7  # bytes from the end of a row to the next one


@numba.njit
def _score_rows(rows, first, queries, heads, slow, scores, to) -> None:  # type: ignore[no-untyped-def]
    score_rows(rows, first, queries, heads, slow, scores, to)


@numba.njit
def _add_rows(rows, weights, begin, heads, slow, out, place) -> None:  # type: ignore[no-untyped-def]
    add_rows(rows, weights, begin, heads, slow, out, place)


def drawn(format: int, count: int, size: int) -> tuple[Array, Array, Array]:
    """Return the bytes of rows, which of their elements have the second scale, and what they stand for."""
    rng = np.random.default_rng(count)
    slow = rng.integers(0, 2, size).astype(np.int8)
    width = 2 * size if format == BFLOAT16 else size + 4
    memory = np.zeros((count, width + APART), np.uint8)
    if format == BFLOAT16:
        bits = rng.integers(0x3F00, 0x4000, (count, size), np.uint16)
        memory[:, :width] = bits.view(np.uint8)
        return memory, slow, (bits.astype(np.uint32) << 16).view(np.float32)
    numbers, scales = (
        rng.integers(-127, 128, (count, size), np.int8),
        rng.integers(0x3C00, 0x3D00, (count, 2), np.uint16),
    )
    memory[:, :size], memory[:, size:width] = numbers.view(np.uint8), scales.view(np.uint8)
    return memory, slow, numbers * np.take_along_axis((scales.astype(np.uint32) << 16).view(np.float32), slow[None], 1)


@pytest.mark.parametrize(("score", "add"), [(_score_rows, _add_rows), (score_rows, add_rows)])
@pytest.mark.parametrize("format", [BFLOAT16, INT8])
@pytest.mark.parametrize("heads", [1, HEADS])
@pytest.mark.parametrize(("count", "size"), [(1, 16), (4, 64), (6, 80), (9, 160)])
def test_rows_are_multiplied_as_floats(score: Any, add: Any, format: int, heads: int, count: int, size: int) -> None:
    memory, slow, floats = drawn(format, count, size)
    rows, rng = Rows(format, address_of(memory), memory.shape[1], count, size), np.random.default_rng(0)
    queries = rng.normal(size=5 + heads * size).astype(np.float32)
    scores = np.full((heads, count + ROWS + 2), 9, np.float32)
    for first in range(0, count, ROWS):
        score(rows, first, queries[5:], heads, slow, scores, 2 + first)
    wanted = queries[5:].reshape(heads, size) @ floats.T
    np.testing.assert_allclose(scores[:, 2 : 2 + count], wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
    assert (scores[:, :2] == 9).all()
    assert (scores[:, 2 - (-count // ROWS) * ROWS :] == 9).all()

    weights, out = rng.normal(size=(heads, count + 3)).astype(np.float32), np.ones(5 + heads * size, np.float32)
    add(rows, weights, 3, heads, slow, out, 5)
    wanted = weights[:, 3:] @ floats + 1
    np.testing.assert_allclose(out[5:].reshape(heads, size), wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
    assert (out[:5] == 1).all()


@pytest.mark.parametrize("format", [BFLOAT16, INT8])
def test_a_score_has_the_same_bits_among_other_heads_and_rows(format: int) -> None:
    memory, slow, _ = drawn(format, 7, 64)
    rows = Rows(format, address_of(memory), memory.shape[1], 7, 64)
    queries, one, three = np.random.default_rng(0).normal(size=192).astype(np.float32), *np.zeros((2, 3, 8), np.float32)
    for first in (0, 4):
        _score_rows(rows, first, queries, HEADS, slow, three, first)
        for head in range(HEADS):
            _score_rows(rows, first, queries[head * 64 :], 1, slow, one[head:], first)
    assert one.tobytes() == three.tobytes()
