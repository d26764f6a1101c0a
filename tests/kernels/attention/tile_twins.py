"""Twins of what attention does with the tiles of keys and the panels of queries: packing, products and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.attention.plan import HeadGroup, Seen
from minigrad.kernels.attention.queries import Query, QueryPanel
from minigrad.kernels.attention.tiles import COLUMNS, ROWS, LeftFactor, Tile
from minigrad.kernels.codegen.microkernel import Panel, Target
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.gemm.packing import Matrix
from minigrad.kernels.rowwise.dropout import Draws
from tests.kernels.attention.twins import dropout_mask
from tests.kernels.rowwise.draw_twins import some_draws
from tests.kernels.twin import UNTOUCHED, Arguments, Array, Twin, numbers

BEGINS = st.integers(0, 3)
SIDES = st.sampled_from([0, 1, 2, ROWS - 1, ROWS, ROWS + 1, 40])


@st.composite
def _panel_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    rows, steps, depth = draw(st.sampled_from([0, ROWS, 3 * ROWS])), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    left = LeftFactor(numbers(draw, dtype, 2 + rows * max(steps, depth)), 2, rows, max(steps, depth))
    right, result = numbers(draw, dtype, depth * COLUMNS), numbers(draw, dtype, 4 + rows * COLUMNS)
    return [left, right, depth, result, 4, draw(st.booleans())]


def _panel_product(left: LeftFactor, right: Array, depth: int, result: Array, start: int, add: bool) -> None:
    elements, first, rows, steps = left
    a = elements[first : first + rows * steps].reshape(-1, steps, ROWS)[:, :depth].swapaxes(1, 2).reshape(rows, depth)
    block = result[start : start + rows * COLUMNS].reshape(rows, COLUMNS)
    block[...] = a @ right[: depth * COLUMNS].reshape(depth, COLUMNS) + (block if add else 0)


@st.composite
def _plain_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    depth, stride = draw(st.integers(1, 9)), COLUMNS + draw(st.integers(0, 2))
    left, right = (Panel(numbers(draw, dtype, 3 + side * depth), 3) for side in (ROWS, COLUMNS))
    return [left, right, depth, Target(numbers(draw, dtype, 1 + ROWS * stride), 1, stride), draw(st.booleans())]


def _plain_block(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    a, b = (panel.elements[panel.start :].reshape(depth, -1) for panel in (left, right))
    block = target.elements[target.start :].reshape(ROWS, target.stride)[:, :COLUMNS]
    block[...] = a.T @ b + (block if add else 0)


@st.composite
def _transpose_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    rows, columns = draw(SIDES), draw(SIDES)
    stride = columns + draw(st.integers(0, 2))
    x = numbers(draw, dtype, 1 + max(rows, SIDE) * stride + SIDE)
    return [Matrix(x, 1, stride, False, rows, columns), np.full(2 + columns * rows, UNTOUCHED, dtype)]


def _transpose(source: Matrix, y: Array) -> None:
    for i in range(source.lanes):
        for j in range(source.steps):
            y[j * source.lanes + i] = source.elements[source.start + i * source.stride + j]


@st.composite
def _pack_arguments(draw: DrawFn, dtype: Any, transposed: bool) -> Arguments:
    count, size, stride = draw(SIDES), draw(SIDES), 45
    x, excess = numbers(draw, dtype, 1 + count * stride), draw(st.integers(0, 3))
    if transposed:
        source, rows, steps = Matrix(x, 1, stride, True, size, count), -(-size // ROWS) * ROWS, count + excess
    else:
        source, rows, steps = Matrix(x, 1, stride, False, count, size), (-(-count // ROWS) + excess) * ROWS, size
    return [source, LeftFactor(np.full(2 + rows * steps, UNTOUCHED, dtype), 2, rows, steps)]


def pack_left(source: Matrix, target: LeftFactor) -> None:
    lines, elements = (source.steps, source.lanes) if source.transposed else (source.lanes, source.steps)
    known = source.elements[source.start :].reshape(lines, source.stride)[:, :elements]
    known = known.T if source.transposed else known
    full = np.zeros((target.rows, target.steps), known.dtype)
    full[: source.lanes, : source.steps] = known
    packed = full.reshape(target.rows // ROWS, ROWS, target.steps).swapaxes(1, 2).reshape(-1)
    target.elements[target.start : target.start + full.size] = packed


@st.composite
def query_panels(draw: DrawFn, dtype: Any) -> tuple[Array, QueryPanel, HeadGroup]:
    """Draw positions x width, and a panel and a group of heads in them."""
    group, size, kv_heads, first, row = (draw(st.integers(1, 3)) for _ in range(5))
    panel = QueryPanel(first, row, draw(st.integers(0, COLUMNS)))
    heads = HeadGroup(draw(st.integers(0, kv_heads - 1)), kv_heads, group, size)
    return numbers(draw, dtype, first + (row + panel.num_rows) // group + 1, kv_heads * group * size), panel, heads


@st.composite
def _queries_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, panel, heads = draw(query_panels(dtype))
    return [x, panel, heads, np.full(COLUMNS * heads.size + 1, UNTOUCHED, dtype)]


def rows_of(x: Array, panel: QueryPanel, heads: HeadGroup, size: int) -> tuple[Array, Array]:
    """Return which rows and which columns, `size` wide, the query rows of a panel have in x."""
    r = panel.row + np.arange(panel.num_rows)
    columns = (heads.head * heads.group + r % heads.group) * size
    return (panel.first + r // heads.group)[:, None], columns[:, None] + np.arange(size)


def load_queries(x: Array, panel: QueryPanel, heads: HeadGroup, y: Array) -> None:
    full = np.zeros((COLUMNS, heads.size), x.dtype)
    full[: panel.num_rows] = x[rows_of(x, panel, heads, heads.size)]
    y[: full.size] = full.reshape(-1)


@st.composite
def _next_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    position, head, kv_heads, group = (draw(st.integers(0, 3)) for _ in range(4))
    query_head = head * (group + 1) + draw(st.integers(0, group))
    return [Query(position, query_head), HeadGroup(head, head + kv_heads + 1, group + 1, 5)]


def _next_query(query: Query, heads: HeadGroup) -> Query:
    row = query.position * heads.group + query.head % heads.group + 1
    return Query(row // heads.group, heads.head * heads.group + row % heads.group)


@st.composite
def _seen_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, panel, heads = draw(query_panels(dtype).filter(lambda drawn: drawn[1].num_rows > 0))
    loaded = Seen(*(np.full(COLUMNS + 1, UNTOUCHED, np.int32) for _ in range(2)))
    return [Seen(np.arange(len(x)), np.arange(len(x)) + 5), panel, heads, loaded]


def load_seen(seen: Seen, panel: QueryPanel, heads: HeadGroup, y: Seen) -> None:
    rows = panel.row + np.minimum(np.arange(COLUMNS), panel.num_rows - 1)
    for bounds, loaded in zip(seen, y, strict=True):
        loaded[:COLUMNS] = bounds[panel.first + rows // heads.group]


@st.composite
def _add_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    x, panel, heads = draw(query_panels(dtype))
    return [numbers(draw, dtype, COLUMNS * heads.size), panel, heads, x]


def _add_queries(x: Array, panel: QueryPanel, heads: HeadGroup, y: Array) -> None:
    y[rows_of(y, panel, heads, heads.size)] += x.reshape(COLUMNS, heads.size)[: panel.num_rows]


@st.composite
def tiles(draw: DrawFn, dtype: Any, begins: st.SearchStrategy[int] = BEGINS) -> tuple[Tile, Seen]:
    tile = Tile(draw(begins), 4 * draw(st.integers(0, 2)))
    most, rng = tile.begin + tile.num_keys + 2, np.random.default_rng(draw(st.integers(0, 99)))
    visible = np.sort(rng.integers(max(0, most - 14), most, COLUMNS).astype(np.int32))
    hidden = rng.integers(0, most, COLUMNS) if draw(st.booleans()) else np.zeros(COLUMNS)
    return tile, Seen(np.minimum(np.sort(hidden), visible).astype(np.int32), visible)


def are_seen(tile: Tile, seen: Seen) -> Array:
    keys = np.arange(tile.num_keys)[:, None] + tile.begin
    return (seen.first <= keys) & (keys < seen.visible)


@st.composite
def _mask_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    tile, seen = draw(tiles(dtype))
    value = draw(st.sampled_from([-np.inf, 0.0]))
    return [numbers(draw, dtype, tile.num_keys * COLUMNS + 1), tile, seen, value]


def _hide_keys(x: Array, tile: Tile, seen: Seen, value: float) -> None:
    part = x[: tile.num_keys * COLUMNS].reshape(tile.num_keys, COLUMNS)
    part[...] = np.where(are_seen(tile, seen), part, value)


@st.composite
def _apply_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    tile, _ = draw(tiles(dtype))
    return [numbers(draw, dtype, tile.num_keys * COLUMNS + 1), numbers(draw, dtype, tile.num_keys * COLUMNS), tile]


def _apply_mask(values: Array, mask: Array, tile: Tile) -> None:
    values[: tile.num_keys * COLUMNS] *= mask


@st.composite
def _draw_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    n, first, row, group = (draw(st.integers(1, 5)) for _ in range(4))
    panel, tile = QueryPanel(first, row, draw(st.integers(0, COLUMNS))), Tile(4 * draw(st.integers(0, 2)), n)
    mask, heads = np.full(n * COLUMNS + 1, UNTOUCHED, dtype), HeadGroup(draw(st.integers(0, 1)), 2, group, 5)
    return [mask, np.zeros(8, dtype), tile, panel, heads, draw(some_draws(dtype, 2**31))]


def _draw_panel(mask: Array, drawn: Array, tile: Tile, panel: QueryPanel, heads: HeadGroup, draws: Draws) -> None:
    part = mask[: tile.num_keys * COLUMNS].reshape(tile.num_keys, COLUMNS)
    part[...] = 0
    blocks = -(-tile.num_keys // 4)  # all four draws of the last counter are made
    for r in range(panel.num_rows):
        position, head = panel.first + (panel.row + r) // heads.group, (panel.row + r) % heads.group
        query_head, num_heads = heads.head * heads.group + head, heads.kv_heads * heads.group
        full = dropout_mask(slice(position, position + 1), query_head, num_heads, tile.begin + 4 * blocks, draws)
        drawn[: 4 * blocks] = full[0, tile.begin :]
        part[:, r] = drawn[: tile.num_keys]


TWINS: dict[str, Twin] = {
    "attention.tiles.round_up": Twin(
        lambda dtype: st.tuples(st.integers(0, 99), st.integers(1, 9)).map(list),
        lambda number, multiple: number + -number % multiple,
    ),
    "attention.tiles.plain_block": Twin(_plain_arguments, _plain_block),
    "attention.tiles.panel_product": Twin(_panel_arguments, _panel_product),
    "attention.factors.transpose": Twin(_transpose_arguments, _transpose),
    "attention.factors.pack_rows": Twin(lambda dtype: _pack_arguments(dtype, False), pack_left),
    "attention.factors.pack_transposed": Twin(lambda dtype: _pack_arguments(dtype, True), pack_left),
    "attention.queries.first_query": Twin(
        lambda dtype: query_panels(dtype).map(lambda drawn: list(drawn[1:])),
        lambda panel, heads: Query(
            panel.first + panel.row // heads.group, heads.head * heads.group + panel.row % heads.group
        ),
    ),
    "attention.queries.next_query": Twin(_next_arguments, _next_query),
    "attention.queries.load_seen": Twin(_seen_arguments, load_seen),
    "attention.queries.load_queries": Twin(_queries_arguments, load_queries),
    "attention.queries.add_queries": Twin(_add_arguments, _add_queries),
    "attention.queries.hide_keys": Twin(_mask_arguments, _hide_keys),
    "attention.queries.draw_panel": Twin(_draw_arguments, _draw_panel),
    "attention.queries.apply_mask": Twin(_apply_arguments, _apply_mask),
}
