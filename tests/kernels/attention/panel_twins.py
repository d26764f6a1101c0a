"""Twins of the gradients of one panel of queries and one tile of keys: in products, and pair by pair."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.attention.plan import Arithmetic, Denominators, HeadGroup, Inputs, Seen
from minigrad.kernels.attention.queries import QueryPanel
from minigrad.kernels.attention.tile_gradients import Saved, Workspace, backward_workspace
from minigrad.kernels.attention.tiles import COLUMNS, ROWS, LeftFactor, Tile
from minigrad.kernels.gemm.packing import Matrix
from minigrad.kernels.rowwise.dropout import Stream, draws_of
from tests.kernels.attention.softmax_twins import load_gradient
from tests.kernels.attention.tile_twins import are_seen, load_queries, pack_left, query_panels, tiles
from tests.kernels.codegen.twins import rounded
from tests.kernels.twin import Arguments, Array, Twin, leaves, numbers


@st.composite
def _workspaces(draw: DrawFn, dtype: Any) -> tuple[Tile, Workspace, HeadGroup]:
    """Draw a tile of keys that a panel sees in part, and a workspace filled with numbers."""
    begins = st.sampled_from([0, COLUMNS, 2 * COLUMNS])
    (tile, seen), size = draw(tiles(dtype, begins)), draw(st.sampled_from([1, 5, ROWS + 1]))
    tile = Tile(tile.begin, draw(st.integers(1, 2 * COLUMNS // ROWS)) * ROWS)
    workspace = backward_workspace(np.zeros((0, 0), dtype), np.zeros(0, dtype), size)
    for array in leaves(workspace)[:-3]:  # all but the scratch memory of packing
        array[...] = np.round(numbers(draw, np.float64, array.size, scale=3)) if array.dtype == dtype else 0
    for loaded, drawn in zip(workspace.statistics.seen, seen, strict=True):
        loaded[:] = drawn
    return tile, workspace, HeadGroup(0, 1, 1, size)


def _rows(workspace: Workspace, tile: Tile) -> tuple[Array, Array]:
    return tuple(x[: tile.num_keys * COLUMNS].reshape(-1, COLUMNS) for x in (workspace.scores, workspace.slopes))  # type: ignore[return-value]


def _unpacked(packed: Array, height: int, steps: int) -> Array:
    return packed[: height * steps].reshape(-1, steps, ROWS).swapaxes(1, 2).reshape(height, steps)


def _add_by_key(sums: Array, height: int, product: Array, begin: int) -> None:
    """Add a product (d, keys), whose first key is `begin`, to sums stored panel by panel, as (panels, d, COLUMNS)."""
    size, num_keys = product.shape
    panels = np.pad(product, ((0, 0), (0, -num_keys % COLUMNS))).reshape(size, -1, COLUMNS).swapaxes(0, 1)
    sums[begin * height :][: len(panels) * height * COLUMNS].reshape(-1, height, COLUMNS)[:, :size] += panels


@st.composite
def _tile_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    tile, workspace, heads = draw(_workspaces(dtype))
    height = -(-heads.size // ROWS) * ROWS
    return [tile, LeftFactor(workspace.k_columns, 0, height, tile.begin + tile.num_keys), workspace]


def _add_tile_gradients(tile: Tile, k_columns: LeftFactor, workspace: Workspace) -> None:
    height, (p, ds) = k_columns.rows, _rows(workspace, tile)
    padding = slice(tile.num_keys * COLUMNS, -(-tile.num_keys // COLUMNS) * COLUMNS * COLUMNS)
    workspace.scores[padding], workspace.slopes[padding] = 0, 0
    keys = _unpacked(k_columns.elements, height, k_columns.steps)[:, tile.begin : tile.begin + tile.num_keys]
    workspace.dq[: height * COLUMNS] = (keys @ ds).reshape(-1)
    for left, right, sums in (
        (workspace.dout_columns, p, workspace.dv),
        (workspace.q_columns, ds, workspace.dk),
    ):
        _add_by_key(sums, height, _unpacked(left, height, COLUMNS) @ right.T, tile.begin)
    # Scratch memory of packing holds the last block.
    last = workspace.slopes[: padding.stop].reshape(-1, COLUMNS)[-COLUMNS:]
    workspace.block_right[...] = last.T.reshape(-1)


@st.composite
def _visible_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    tile, workspace, heads = draw(_workspaces(dtype))
    count, stride = draw(st.integers(0, tile.num_keys)), heads.size + 2
    panel = QueryPanel(1, 0, draw(st.integers(0, COLUMNS)))
    q, dout = (np.round(numbers(draw, dtype, 1 + COLUMNS, heads.size, scale=3)) for _ in range(2))
    lines = np.round(numbers(draw, dtype, 3 + count * stride, scale=3))
    integers = np.zeros(1, np.int64)
    inputs = Inputs(
        *(q, q, q, integers, integers.reshape(1, 1), Seen(integers, integers), 1, dtype(1)),
        draws_of(0.0, Stream(0), np.dtype(dtype)),
        Arithmetic(np.zeros(0, dtype), False),
    )
    keys = Matrix(lines, 3, stride, False, count, heads.size)
    return [inputs, Saved(dout, dout, Denominators(dout, dout)), tile, panel, heads, keys, workspace]


def _add_visible_gradients(
    inputs: Inputs, saved: Saved, tile: Tile, panel: QueryPanel, heads: HeadGroup, keys: Matrix, workspace: Workspace
) -> None:
    size, (p, ds) = heads.size, _rows(workspace, tile)
    height = -(-size // ROWS) * ROWS
    seen = are_seen(tile, workspace.statistics.seen)
    workspace.dq[:] = 0
    for i in range(keys.lanes):
        line = keys.elements[keys.start + i * keys.stride :][:size]
        workspace.dq[: size * COLUMNS] += np.outer(line, ds[i] * seen[i]).reshape(-1)
    for source, weights, sums in ((saved.dout, p, workspace.dv), (inputs.q, ds, workspace.dk)):
        rows = source[1 : 1 + panel.num_rows]
        _add_by_key(sums, height, rows.T @ (weights * seen)[:, : panel.num_rows].T, tile.begin)
    load_queries(inputs.q, panel, heads, workspace.rows)


@st.composite
def _load_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, panel, heads = draw(query_panels(dtype))
    panel = panel._replace(num_rows=max(panel.num_rows, 1))
    x = numbers(draw, dtype, len(x) + 1, x.shape[1])
    dout, out = numbers(draw, dtype, *x.shape), numbers(draw, dtype, *x.shape)
    if draw(st.booleans()):
        (dout if draw(st.booleans()) else x)[:] = draw(st.sampled_from([np.nan, np.inf]))
    integers, seen = np.zeros(1, np.int64), Seen(np.arange(len(x)) // 2, np.arange(len(x)))
    inputs = Inputs(
        *(x, x, x, integers, integers.reshape(1, 1), seen, heads.kv_heads, dtype(1)),
        draws_of(0.0, Stream(0), np.dtype(dtype)),
        Arithmetic(np.zeros(0, dtype), False),
    )
    denominators = Denominators(*(numbers(draw, dtype, len(x), heads.kv_heads * heads.group) for _ in range(2)))
    workspace = backward_workspace(x, np.zeros(0, dtype), heads.size)
    for array in leaves(workspace)[:-3]:
        array[...] = 0
    return [inputs, Saved(dout, out, denominators), panel, heads, workspace]


def _load_panel(inputs: Inputs, saved: Saved, panel: QueryPanel, heads: HeadGroup, workspace: Workspace) -> bool:
    size, height, finite = heads.size, -(-heads.size // ROWS) * ROWS, True
    with np.errstate(invalid="ignore"):
        load_gradient(saved, inputs.seen, panel, heads, workspace)
    for source, right, left in (
        (saved.dout, workspace.dout_right, workspace.dout_columns),
        (inputs.q, workspace.q_right, workspace.q_columns),
    ):
        load_queries(source, panel, heads, workspace.rows)
        rows = workspace.rows[: COLUMNS * size].reshape(COLUMNS, size)
        finite = finite and bool(np.isfinite(rows).all())
        right[: rows.size] = rows.T.reshape(-1)
        pack_left(Matrix(workspace.rows, 0, size, True, size, COLUMNS), LeftFactor(left, 0, height, COLUMNS))
    return finite


@st.composite
def _matrices(draw: DrawFn, dtype: Any) -> Arguments:
    lanes, steps = draw(st.integers(0, 5)), draw(st.integers(0, 20))
    x = numbers(draw, dtype, 2 + lanes * (steps + 1))
    if draw(st.booleans()):
        x[draw(st.integers(0, len(x) - 1))] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    return [Matrix(x, 2, steps + 1, False, lanes, steps)]


def _all_finite(matrix: Matrix) -> bool:
    lines = matrix.elements[2:].reshape(matrix.lanes, matrix.stride)[:, : matrix.steps]
    return bool(np.isfinite(lines).all())


@st.composite
def _key_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    (tile, seen), count, size = draw(tiles(dtype)), draw(st.integers(0, 40)), draw(st.integers(1, 5))
    keys = Matrix(numbers(draw, dtype, 1 + count * (size + 1)), 1, size + 1, False, count, size)
    weights, sums = numbers(draw, dtype, tile.num_keys * COLUMNS + 1), numbers(draw, dtype, size * COLUMNS)
    return [weights, tile, seen, keys, sums]


def _add_keys(weights: Array, tile: Tile, seen: Seen, keys: Matrix, sums: Array) -> None:
    lines = keys.elements[1:].reshape(keys.lanes, keys.stride)[: tile.num_keys, : keys.steps]
    part = np.where(are_seen(tile, seen), weights[: tile.num_keys * COLUMNS].reshape(-1, COLUMNS), 0)
    sums[...] += (lines.T @ part[: len(lines)]).reshape(-1)


@st.composite
def _row_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    (tile, seen), count, size = draw(tiles(dtype)), draw(st.integers(0, COLUMNS)), draw(st.integers(1, 5))
    height = -(-size // ROWS) * ROWS
    rows = Matrix(numbers(draw, dtype, 1 + count * (size + 1)), 1, size + 1, False, count, size)
    weights = numbers(draw, dtype, tile.num_keys * COLUMNS + 1)
    return [weights, tile, seen, rows, numbers(draw, dtype, -(-tile.num_keys // COLUMNS) * COLUMNS * height)]


def _add_rows(weights: Array, tile: Tile, seen: Seen, rows: Matrix, sums: Array) -> None:
    lines = rows.elements[1:].reshape(rows.lanes, rows.stride)[:, : rows.steps]
    part = np.where(are_seen(tile, seen), weights[: tile.num_keys * COLUMNS].reshape(-1, COLUMNS), 0)
    by_key, product = sums.reshape(-1, -(-rows.steps // ROWS) * ROWS, COLUMNS), part[:, : rows.lanes] @ lines
    for i, line in enumerate(product):
        by_key[i // COLUMNS, : rows.steps, i % COLUMNS] += line


@st.composite
def _round_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    tile, _ = draw(tiles(dtype))
    return [numbers(draw, np.float32, tile.num_keys * COLUMNS + 1), tile]


def _round_panel(values: Array, tile: Tile) -> None:
    part = values[: tile.num_keys * COLUMNS]
    part[...] = (rounded(part) << 16).view(np.float32)


TWINS: dict[str, Twin] = {
    "attention.tile_gradients.load_panel": Twin(_load_arguments, _load_panel),
    "attention.tile_gradients.add_tile_gradients": Twin(_tile_arguments, _add_tile_gradients),
    "attention.tile_gradients.add_visible_gradients": Twin(_visible_arguments, _add_visible_gradients),
    "attention.visible.all_finite": Twin(_matrices, _all_finite),
    "attention.visible.add_keys": Twin(_key_arguments, _add_keys),
    "attention.visible.add_rows": Twin(_row_arguments, _add_rows),
    "attention.queries.round_panel": Twin(_round_arguments, _round_panel),
}
