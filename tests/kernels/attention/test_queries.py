"""Panels of queries: loaded, added to, masked, and dropped out."""

from __future__ import annotations

from collections.abc import Iterable

import numba
import numpy as np
import pytest

from minigrad.kernels.attention.plan import HeadGroup, Seen
from minigrad.kernels.attention.queries import QueryPanel, add_queries, draw_panel, hide_keys, load_queries
from minigrad.kernels.attention.tiles import COLUMNS, Tile
from minigrad.kernels.jit import host_features
from minigrad.kernels.rowwise.dropout import Stream, draws_of
from tests.kernels.machine_code import vector_loads


@pytest.mark.parametrize("head", [0, 1])
def test_the_panels_of_a_sequence_cover_its_heads_once(head: int) -> None:
    heads, positions = HeadGroup(head, 2, 3, 4), 2 * COLUMNS // 3 + 3
    x = np.random.default_rng(0).normal(size=(positions + 2, 24)).astype(np.float32)
    y, rows = np.zeros_like(x), np.zeros(COLUMNS * 4, np.float32)
    for row in range(0, 3 * positions, COLUMNS):
        panel = QueryPanel(1, row, min(COLUMNS, 3 * positions - row))
        load_queries(x, panel, heads, rows)
        add_queries(rows, panel, heads, y)
    wanted = np.zeros_like(x)
    wanted[1 : 1 + positions, head * 12 : head * 12 + 12] = x[1 : 1 + positions, head * 12 : head * 12 + 12]
    np.testing.assert_array_equal(y, wanted)


def seen(visible: Iterable[int], first: Iterable[int] = (0,) * COLUMNS) -> Seen:
    return Seen(np.array(list(first), np.int32), np.array(list(visible), np.int32))


def test_a_tile_before_all_queries_is_not_masked() -> None:
    scores = np.ones(8 * COLUMNS)
    hide_keys(scores, Tile(4, 8), seen(range(12, 12 + COLUMNS)), -np.inf)
    assert (scores == 1).all()


def test_a_query_sees_itself_and_what_is_before_it() -> None:
    scores = np.zeros(COLUMNS * COLUMNS)
    hide_keys(scores, Tile(0, COLUMNS), seen(range(1, COLUMNS + 1)), -np.inf)
    hidden = np.isinf(scores.reshape(COLUMNS, COLUMNS))
    np.testing.assert_array_equal(hidden, np.tri(COLUMNS, COLUMNS, -1, bool))


def test_with_a_window_a_query_sees_no_key_before_it() -> None:
    scores = np.zeros(COLUMNS * COLUMNS)
    visible = range(1, COLUMNS + 1)
    hide_keys(scores, Tile(0, COLUMNS), seen(visible, [max(count - 3, 0) for count in visible]), -np.inf)
    hidden = np.isinf(scores.reshape(COLUMNS, COLUMNS))
    np.testing.assert_array_equal(hidden, ~(np.tri(COLUMNS, k=2, dtype=bool) & np.tri(COLUMNS, dtype=bool).T))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.skipif("avx2" not in host_features(), reason="other processors store single elements under a mask")
def test_a_tile_is_masked_in_vector_registers() -> None:
    numbers, counts = numba.float32[::1], numba.int32[::1]
    tile = numba.types.NamedTuple((numba.int64, numba.int64), Tile)
    bounds = numba.types.NamedTuple((counts, counts), Seen)
    loads = vector_loads(hide_keys, (numbers, tile, bounds, numba.float64))
    assert any(kind.endswith(" i32>") for kind in loads)  # the limits; the scores are stored through a mask


def test_a_draw_depends_on_query_head_and_key_and_not_on_tile_and_panel() -> None:
    heads, draws, drawn = HeadGroup(1, 2, 2, 4), draws_of(0.5, Stream(3, 4, 5), np.dtype(float)), np.zeros(64)
    mask, shifted = np.zeros(48 * COLUMNS), np.zeros(40 * COLUMNS)
    draw_panel(mask, drawn, Tile(0, 48), QueryPanel(0, 0, COLUMNS), heads, draws)
    draw_panel(shifted, drawn, Tile(8, 40), QueryPanel(0, 2, COLUMNS - 2), heads, draws)
    every, part = mask.reshape(48, COLUMNS), shifted.reshape(40, COLUMNS)
    np.testing.assert_array_equal(part[:, : COLUMNS - 2], every[8:, 2:])
    assert not part[:, COLUMNS - 2 :].any()
    assert set(np.unique(every)) == {0, 2}
