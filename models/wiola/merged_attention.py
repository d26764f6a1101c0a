"""Attention with merged neighbours: fewer rows attend, or fewer keys are attended to.

`models.wiola.merging` decides which rows merge and explains the variants; this file computes attention with them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.cache import refuse_gradient
from minigrad.nn.layout import Layout
from minigrad.ops.joined_attention import SeenKeys
from minigrad.pages.explain.attention import Probe, asks, unit_vectors
from minigrad.pages.explain.trace import Operation
from minigrad.typing import Array
from models.wiola.attention import GatedCrossLayerAttention, Pass
from models.wiola.cache import Pending
from models.wiola.merging import Groups, find_groups, rows_at
from models.wiola.operations.own_key import attention_with_own_key


def merged_attention(
    attention: GatedCrossLayerAttention, x: Tensor, summaries: list[Tensor], run: Pass, variant: str, threshold: float
) -> tuple[Tensor, float]:
    """Compute ``attention(x, summaries, run)`` with similar neighbours merged; also return the merge ratio."""
    pending = run.pending
    groups = find_groups(x.data, run.layout.offsets, threshold, pending)
    attending = np.flatnonzero(groups.new)  # the rows that attend, as indices into the rows of the groups
    if variant != "kv_only":
        attending = groups.first[groups.new[groups.first]]
    rows = groups.source[attending] - (0 if pending is None else len(pending.open))
    offsets = np.searchsorted(rows, run.layout.offsets)
    reduced = run._replace(layout=Layout(offsets, run.layout.positions[rows]))
    queries = rows_at(x, rows) if variant != "paper" else (rows_at(x, groups.first) + rows_at(x, groups.last)) * 0.5
    summaries = [rows_at(summary, rows) for summary in summaries]
    if variant in ("first", "paper"):
        out = attention(queries, summaries, reduced)
    else:
        out = _with_averaged_keys(attention, x, queries, summaries, _Merge(run, reduced, groups, attending, rows))
    if variant != "kv_only":
        out = _copy_to_members(out, groups, pending)
    if pending is not None:
        _store(pending.rows, x, run.layout)
        _store(pending.outputs, out, run.layout)
        grown = run.layout.lengths > 0
        pending.open[grown] = (groups.first == groups.last)[groups.offsets[1:][grown] - 1]
    return out, groups.ratio


class _Merge(NamedTuple):
    """A forward pass, the same pass reduced to the rows that attend, and the groups of merged rows."""

    run: Pass
    reduced: Pass
    groups: Groups
    attending: Array  # the rows that attend, as indices into the rows of the groups
    rows: Array  # the same as indices into x


def _with_averaged_keys(
    attention: GatedCrossLayerAttention, x: Tensor, queries: Tensor, summaries: list[Tensor], merge: _Merge
) -> Tensor:
    """Attend to the average key and value of each complete group; in an incomplete group, to the row's own key."""
    run, reduced = merge.run, merge.reduced
    keys, values = attention.heads(attention.k_proj, x), attention.heads(attention.v_proj, x)
    q = run.angles.rotate(attention.queries(queries), reduced.layout)
    own_k = run.angles.rotate(rows_at(keys, merge.rows), reduced.layout)
    own_v = rows_at(values, merge.rows)
    k, v, shared, has_own = _averages(keys, values, merge)
    attended = attention_with_own_key(q, k, v, own_k, own_v, shared=shared, has_own=has_own)
    out = attention.blend(queries, q, attended, summaries)
    if (pending := run.pending) is not None:
        _store(pending.keys, keys, run.layout)
        _store(pending.values, values, run.layout)
    return out


@asks("attention_with_own_key")
def _of_own_keys(operation: Operation) -> Probe:
    """Ask with the own key of a row as the key after the shared keys that the row sees."""
    q, k, _, own_k, _ = operation.arrays
    own = operation.options["shared"].visible

    def ask(start: int) -> Tensor:
        values, own_values = unit_vectors(np.arange(len(k)), start, k), unit_vectors(own, start, own_k)
        return attention_with_own_key(q, k, values, own_k, own_values, **operation.options)

    return ask, int((own + operation.options["has_own"]).max())


def _averages(k: Tensor, v: Tensor, merge: _Merge) -> tuple[Tensor, Tensor, SeenKeys, Array]:
    """Average keys and values over each complete group (eq. 31); return which of them, and whether its own, a row sees.

    Keys are averaged first, which gives the key of the averaged rows, and then rotated once, at the group's last
    position. The newest token of a sequence is an incomplete group while it is alone: it may still merge with the next.
    """
    run, groups, pending = merge.run, merge.groups, merge.run.pending
    positions = run.layout.positions
    if pending is not None:
        k, v = ops.concatenate(Tensor(pending.keys), k), ops.concatenate(Tensor(pending.values), v)
        before = np.append(positions, 0)[run.layout.offsets[:-1]] - 1  # unused for sequences without new tokens
        positions = np.concatenate([before, positions])
    single = groups.first == groups.last
    complete = np.ones(len(single), bool)
    ends = groups.offsets[1:][np.diff(groups.offsets) > 0] - 1
    complete[ends] = ~single[ends]
    first, last = groups.source[groups.first[complete]], groups.source[groups.last[complete]]
    k, v = ((rows_at(x, first) + rows_at(x, last)) * 0.5 for x in (k, v))
    offsets = np.concatenate([[0], np.cumsum(complete)])[groups.offsets]
    k = run.angles.rotate(k, Layout(offsets, positions[last]))
    stored = np.zeros(len(offsets) - 1, np.int64)
    ranges = np.stack([offsets[:-1], offsets[1:]], axis=1)
    if run.cache is not None:
        stored = run.cache.filled[run.layer].copy()
        k, v, ranges = run.cache.append(run.layer, k, v, offsets)
    rows = merge.reduced.layout.offsets
    sequence = np.repeat(np.arange(len(stored)), np.diff(rows))
    group = groups.group[merge.attending]
    # The first row of a group sees its own key; the second sees the average of both, which is its group's key.
    is_first = merge.attending == groups.first[group]
    visible = stored[sequence] + group - groups.offsets[sequence] + ~is_first
    return k, v, SeenKeys(rows, ranges, visible), is_first


def _copy_to_members(out: Tensor, groups: Groups, pending: Pending | None) -> Tensor:
    """Return for each row the output of its group (eq. 32); that of a group begun in an earlier pass was stored."""
    begins_here = groups.new[groups.first]
    index = np.cumsum(begins_here) - 1
    if pending is not None:
        out = ops.concatenate(refuse_gradient(Tensor(pending.outputs), out), out)
        index = np.where(begins_here, index + len(pending.open), groups.source[groups.first])
    return rows_at(out, index[groups.group[groups.new]])


def _store(memory: Array, x: Tensor, layout: Layout) -> None:
    """Store the newest row of each sequence that has new rows."""
    grown = layout.lengths > 0
    memory[grown] = x.data[layout.offsets[1:][grown] - 1]
