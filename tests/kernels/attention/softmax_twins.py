"""Twins of the steps of the softmax of attention and of its gradient, and of their workspaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.attention.forward import RunningSoftmax
from minigrad.kernels.attention.plan import Denominators, HeadGroup, Seen
from minigrad.kernels.attention.queries import QueryPanel
from minigrad.kernels.attention.tile_gradients import Saved, Statistics, Workspace
from minigrad.kernels.attention.tiles import COLUMNS, KEYS, ROWS, Tile
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.gemm.packing import pack_scratch
from tests.kernels.attention.tile_twins import are_seen, load_queries, load_seen, query_panels, rows_of, tiles
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers


@st.composite
def _step_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    tile, seen = draw(tiles(dtype))
    largest = numbers(draw, dtype, COLUMNS)
    largest[draw(st.integers(0, COLUMNS)) :] = -np.inf
    total = np.abs(numbers(draw, dtype, COLUMNS)) * np.isfinite(largest)
    running = RunningSoftmax(largest, total, np.zeros(COLUMNS, dtype), np.zeros(COLUMNS, dtype))
    return [numbers(draw, dtype, tile.num_keys * COLUMNS + 1), tile, seen, dtype(0.7), running]


def _softmax_step(scores: Array, tile: Tile, seen: Seen, scale: float, running: RunningSoftmax) -> None:
    part, (largest, total, rescale, top) = scores[: tile.num_keys * COLUMNS].reshape(tile.num_keys, COLUMNS), running
    part[...] = np.where(are_seen(tile, seen), part, -np.inf)
    before = largest.copy()
    largest[...] = np.maximum(largest, part.max(axis=0, initial=-np.inf))
    top[...] = np.where(np.isfinite(largest), largest, 0)
    rescale[...], part[...] = np.exp((before - top) * scale), np.exp((part - top) * scale)
    total[...] = total * rescale + part.sum(axis=0)


@st.composite
def _write_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, panel, heads = draw(query_panels(dtype))
    total = np.abs(numbers(draw, dtype, COLUMNS)) * np.array([draw(st.booleans()) for _ in range(COLUMNS)])
    unused = np.zeros(COLUMNS, dtype)
    running = RunningSoftmax(numbers(draw, dtype, COLUMNS), total.astype(dtype), unused, unused)
    denominators = Denominators(*(np.full((len(x), heads.kv_heads * heads.group), UNTOUCHED, dtype) for _ in range(2)))
    return [numbers(draw, dtype, COLUMNS * heads.size), panel, heads, running, x, denominators]


def _write_attended(
    rows: Array, panel: QueryPanel, heads: HeadGroup, softmax: RunningSoftmax, out: Array, denominators: Denominators
) -> None:
    total = softmax.total[: panel.num_rows, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        attended = np.where(total > 0, rows.reshape(COLUMNS, heads.size)[: panel.num_rows] / total, 0)
    for saved, each in zip(denominators, softmax, strict=False):
        saved[rows_of(saved, panel, heads, 1)] = each[: panel.num_rows, None]
    out[rows_of(out, panel, heads, heads.size)] = attended


@st.composite
def _gradient_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    tile, seen = draw(tiles(dtype))
    scores, slopes = (numbers(draw, dtype, tile.num_keys * COLUMNS + 1) for _ in range(2))
    statistics = Statistics(seen, *(numbers(draw, dtype, COLUMNS) for _ in range(3)))
    return [scores, slopes, tile, dtype(0.7), statistics]


def _softmax_gradient(scores: Array, slopes: Array, tile: Tile, scale: float, statistics: Statistics) -> None:
    p, ds = (x[: tile.num_keys * COLUMNS].reshape(tile.num_keys, COLUMNS) for x in (scores, slopes))
    seen, largest, inverse, dots = statistics
    p[...] = np.where(are_seen(tile, seen), np.exp((p - largest) * scale) * inverse, 0)
    ds[...] = p * (ds - dots) * scale


@st.composite
def _load_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, panel, heads = draw(query_panels(dtype).filter(lambda drawn: drawn[1].num_rows > 0))
    denominators = Denominators(*(numbers(draw, dtype, len(x), heads.kv_heads * heads.group) for _ in range(2)))
    blind = slice(None, None, draw(st.integers(1, 3)))  # queries that see no key
    denominators.largest[blind], denominators.total[blind] = -np.inf, 0
    rows, outputs = (np.full(COLUMNS * heads.size, UNTOUCHED, dtype) for _ in range(2))
    seen = Seen(*(np.full(COLUMNS, UNTOUCHED, np.int32) for _ in range(2)))
    statistics = Statistics(seen, *(np.full(COLUMNS, UNTOUCHED, dtype) for _ in range(3)))
    loaded = {"rows": rows, "outputs": outputs, "statistics": statistics, "packing": pack_scratch(rows)}
    workspace = Workspace(**({name: np.zeros(0, dtype) for name in Workspace._fields} | loaded))
    limits = Seen(np.arange(len(x)), np.arange(len(x)) + 5)
    return [Saved(x, numbers(draw, dtype, *x.shape), denominators), limits, panel, heads, workspace]


def load_gradient(saved: Saved, limits: Seen, panel: QueryPanel, heads: HeadGroup, workspace: Workspace) -> None:
    load_queries(saved.out, panel, heads, workspace.outputs)
    load_queries(saved.dout, panel, heads, workspace.rows)
    seen, largest, inverse, dots = workspace.statistics
    positions, columns = (index[:, 0] for index in rows_of(saved.denominators.total, panel, heads, 1))
    tops, totals = (each[positions, columns] for each in saved.denominators)
    load_seen(limits, panel, heads, seen)
    largest[:], inverse[:] = 0, 0
    largest[: panel.num_rows] = np.where(totals == 0, 0, tops)
    inverse[: panel.num_rows] = np.where(totals == 0, 0, 1 / np.where(totals == 0, 1, totals))
    dots[:] = (workspace.rows * workspace.outputs).reshape(COLUMNS, heads.size).sum(axis=1)


@st.composite
def _key_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    heads = HeadGroup(draw(st.integers(0, 1)), 2, 3, draw(st.sampled_from([1, 2, 5, ROWS])))
    tile = Tile(draw(st.integers(0, 2)), draw(st.sampled_from([0, 1, COLUMNS - 1, COLUMNS, COLUMNS + 3])))
    height = -(-heads.size // ROWS) * ROWS
    sums = numbers(draw, dtype, -(-tile.num_keys // COLUMNS) * COLUMNS * height + SIDE)
    gradient = np.full((tile.begin + tile.num_keys + 1, 2 * heads.size), UNTOUCHED, dtype)
    return [sums, tile, heads, gradient, np.zeros(COLUMNS * heads.size, dtype)]


def _write_key_gradient(sums: Array, tile: Tile, heads: HeadGroup, gradient: Array, rows: Array) -> None:
    height, column = -(-heads.size // ROWS) * ROWS, heads.head * heads.size
    panels = sums[: len(sums) - SIDE].reshape(-1, height, COLUMNS)[:, : heads.size]
    keys = panels.swapaxes(1, 2).reshape(-1, heads.size)[: tile.num_keys]
    gradient[tile.begin : tile.begin + tile.num_keys, column : column + heads.size] = keys


def _workspace_arguments(dtype: Any) -> st.SearchStrategy[Arguments]:
    return st.sampled_from([1, 5, ROWS, 40]).map(lambda size: [np.zeros((0, 0), dtype), np.zeros(0, dtype), size])


@st.composite
def _forward_workspace_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    return [*draw(_workspace_arguments(dtype)), draw(st.sampled_from([0, 1, KEYS, KEYS + 1]))]


def _forward_workspace(q: Array, packed: Array, size: int, num_keys: int) -> list[int]:
    tile, rows, height, tiles = KEYS * COLUMNS, COLUMNS * size, -(-size // ROWS) * ROWS, -(-num_keys // KEYS)
    keys, queries = [tiles * KEYS * size, tiles * KEYS * height, tiles], [rows, rows, tile, tile, height * COLUMNS]
    return [*keys, *queries, *[COLUMNS] * 6, tile, KEYS, 2 * SIDE**2, 3 * SIDE**2, 2 * SIDE]


def _backward_workspace(q: Array, packed: Array, size: int) -> list[int]:
    tile, rows, height = KEYS * COLUMNS, COLUMNS * size, -(-size // ROWS) * ROWS
    keys, queries = (
        [KEYS * size, KEYS * size, *[height * KEYS] * 3],
        [*[rows] * 4, *[height * COLUMNS] * 3, *[COLUMNS] * 5],
    )
    return [*keys, *queries, tile, tile, tile, COLUMNS**2, tile, KEYS, 2 * SIDE**2, 3 * SIDE**2, 2 * SIDE]


TWINS: dict[str, Twin] = {
    "attention.forward.softmax_step": Twin(_step_arguments, _softmax_step),
    "attention.forward.write_attended": Twin(_write_arguments, _write_attended),
    "attention.forward.forward_workspace": Twin(_forward_workspace_arguments, _forward_workspace, only_sizes=True),
    "attention.tile_gradients.softmax_gradient": Twin(_gradient_arguments, _softmax_gradient),
    "attention.tile_gradients.load_gradient": Twin(_load_arguments, load_gradient),
    "attention.backward.write_key_gradient": Twin(_key_arguments, _write_key_gradient, scratch=1),
    "attention.tile_gradients.backward_workspace": Twin(_workspace_arguments, _backward_workspace, only_sizes=True),
}
