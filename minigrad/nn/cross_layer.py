"""Gated cross-layer attention: besides the tokens before it, a row asks what the layers below made of the text so far.

Wiola, arXiv 2607.01394, section VII. The paper summarises a layer by the mean of its output over the whole text
(eq. 20), future included: every position of the next layers would see it. Here position t has a summary of its own, the
mean over positions up to t. At the last position the two are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad import ops
from minigrad.nn.layers import Linear
from minigrad.nn.merging import Groups, Pending, find_groups, rows_at
from minigrad.nn.module import Module, Parameter, Start
from minigrad.nn.positions import Layout
from minigrad.nn.spiral import SpiralAngles
from minigrad.nn.wiola_cache import WiolaCache
from minigrad.tensor import Tensor

Array = NDArray[Any]


def block_order(num_heads: int, num_kv_heads: int) -> Array:
    """Return where to find the query heads of each group if head h belongs to group h mod G, as the paper writes.

    The code, and the released weights, let head h belong to group h // (H / G); both are the same model with its heads
    in another order: new head g (H / G) + i is old head i G + g.  Shapes: -> (H,).
    """
    return np.arange(num_heads).reshape(-1, num_kv_heads).T.reshape(-1)


class GatedCrossLayerAttention(Module):
    r"""Causal self-attention, blended with attention over the summaries of the layers below, behind a gate.

    $O = (1 - \beta)\, O^{self} + \beta\, O^{ctx}$ with $\beta = \sigma(\phi)$, and the output is
    $(\sigma(X W_{gate}^T) \odot O)\, W_O^T$ (eqs. 22-29). Without summaries, as in the first layer, $O = O^{self}$.
    Eq. 26 asks unturned context keys with turned queries; that is kept, because the weights are trained so.
    Shapes: x (rows, C), each summary (rows, C) -> (rows, C).
    """

    def __init__(
        self, width: int, num_heads: int, num_kv_heads: int, *, gate_start: float, interleaved: bool, std: float
    ) -> None:
        self.head_dim = width // num_heads
        shared = num_kv_heads * self.head_dim
        self.q_proj = Linear(width, width, std=std)
        self.k_proj = Linear(width, shared, std=std)
        self.v_proj = Linear(width, shared, std=std)
        self.o_proj = Linear(width, width, std=std)
        self.k_ctx_proj = Linear(width, shared, std=std)
        self.v_ctx_proj = Linear(width, shared, std=std)
        self.gate_proj = Linear(width, width, std=std)
        self.blend_logit = Parameter((), Start(mean=gate_start))
        self._order = block_order(num_heads, num_kv_heads) if interleaved else None

    def forward(
        self,
        x: Tensor,
        summaries: list[Tensor],
        layout: Layout,
        angles: SpiralAngles,
        cache: WiolaCache | None = None,
        layer: int = 0,
    ) -> Tensor:
        """Let every row attend to its own sequence up to itself, and to the summaries."""
        q, k, v = self._queries(x, layout, angles), self._heads(self.k_proj, x), self._heads(self.v_proj, x)
        k, key_ranges = angles.turn(k, layout), None
        if cache is not None:
            k, v, key_ranges = cache.append(layer, k, v, layout.offsets)
        mixed = ops.attention(q, k, v, offsets=layout.offsets, key_ranges=key_ranges)
        return self._blend(x, q, mixed, summaries)

    def merged(
        self,
        x: Tensor,
        summaries: list[Tensor],
        layout: Layout,
        angles: SpiralAngles,
        cache: WiolaCache | None,
        layer: int,
        variant: str,
        threshold: float,
    ) -> tuple[Tensor, float]:
        """As `forward`, with neighbours that are alike merged; also return the merge ratio (see `nn.merging`)."""
        pending = None if cache is None else cache.pending[layer]
        groups = find_groups(x.data, layout.offsets, threshold, pending)
        asking = np.flatnonzero(groups.new)  # places among the group's rows
        if variant != "kv_only":
            asking = groups.first[groups.new[groups.first]]
        rows = groups.source[asking] - (0 if pending is None else len(pending.open))
        before = np.searchsorted(rows, layout.offsets)  # asking rows in front of each text
        small = Layout(before, layout.positions[rows])
        asked = rows_at(x, rows) if variant != "paper" else (rows_at(x, groups.first) + rows_at(x, groups.last)) * 0.5
        summaries = [rows_at(summary, rows) for summary in summaries]
        if variant in ("first", "paper"):
            out = self.forward(asked, summaries, small, angles, cache, layer)
        else:
            keys, values = self._heads(self.k_proj, x), self._heads(self.v_proj, x)
            q = self._queries(asked, small, angles)
            own_k, own_v = angles.turn(rows_at(keys, rows), small), rows_at(values, rows)
            k, v, options = self._averages(keys, values, layout, angles, groups, asking, small, pending, cache, layer)
            mixed = ops.attention_with_own_key(q, k, v, own_k, own_v, offsets=small.offsets, **options)
            out = self._blend(asked, q, mixed, summaries)
            if pending is not None:
                _store(pending.keys, keys, layout)
                _store(pending.values, values, layout)
        if variant != "kv_only":
            out = _repeat(out, groups, pending)
        if pending is not None and len(x):
            _store(pending.rows, x, layout)
            _store(pending.outputs, out, layout)
            pending.open[:] = (groups.first == groups.last)[groups.offsets[1:] - 1]
        return out, groups.ratio

    def _averages(
        self,
        k: Tensor,
        v: Tensor,
        layout: Layout,
        angles: SpiralAngles,
        groups: Groups,
        asking: Array,
        small: Layout,
        pending: Pending | None,
        cache: WiolaCache | None,
        layer: int,
    ) -> tuple[Tensor, Tensor, dict[str, Array]]:
        """Average keys and values over each group (eq. 31), and say how many of them each asking row may see.

        A key is turned once, at its group's last position, after averaging: the average of keys is the key of the
        average. A text's last token, while alone, is not there yet: it may still find a partner.
        """
        positions = layout.positions
        if pending is not None:
            k, v = ops.concatenate(Tensor(pending.keys), k), ops.concatenate(Tensor(pending.values), v)
            before = np.append(positions, 0)[layout.offsets[:-1]] - 1  # of no use where no token is new
            positions = np.concatenate([before, positions])
        single = groups.first == groups.last
        done = np.ones(len(single), bool)
        ends = groups.offsets[1:][np.diff(groups.offsets) > 0] - 1
        done[ends] = ~single[ends]
        first, last = groups.source[groups.first[done]], groups.source[groups.last[done]]
        k, v = ((rows_at(x, first) + rows_at(x, last)) * 0.5 for x in (k, v))
        offsets = np.concatenate([[0], np.cumsum(done)])[groups.offsets]
        k = angles.turn(k, Layout(offsets, positions[last]))
        stored = np.zeros(len(offsets) - 1, np.int64)
        ranges = np.stack([offsets[:-1], offsets[1:]], axis=1)
        if cache is not None:
            stored = cache.filled[layer].copy()
            k, v, ranges = cache.append(layer, k, v, offsets)
        text = np.repeat(np.arange(len(stored)), np.diff(small.offsets))
        group = groups.group[asking]
        opens = asking == groups.first[group]  # sees itself alone; the second of a pair sees the average of both
        visible = stored[text] + group - groups.offsets[text] + ~opens
        return k, v, {"key_ranges": ranges, "visible": visible, "has_own": opens}

    def _heads(self, project: Linear, x: Tensor) -> Tensor:
        """Project and split: x (..., C) -> (..., heads, D)."""
        return project(x).reshape(*x.shape[:-1], project.weight.shape[0] // self.head_dim, self.head_dim)

    def _queries(self, x: Tensor, layout: Layout, angles: SpiralAngles) -> Tensor:
        q = self._heads(self.q_proj, x)
        return angles.turn(q if self._order is None else q[:, self._order], layout)

    def _blend(self, x: Tensor, q: Tensor, mixed: Tensor, summaries: list[Tensor]) -> Tensor:
        if summaries:
            context = ops.stack(*summaries, axis=1)  # (rows, L, C)
            k, v = self._heads(self.k_ctx_proj, context), self._heads(self.v_ctx_proj, context)
            beta = ops.sigmoid(self.blend_logit)
            mixed = mixed * (1 - beta) + ops.context_attention(q, k, v) * beta
        if self._order is not None:
            mixed = mixed[:, np.argsort(self._order)]
        return self.o_proj(ops.sigmoid_gate(mixed.reshape(len(x), self.q_proj.weight.shape[0]), self.gate_proj(x)))


def _repeat(out: Tensor, groups: Groups, pending: Pending | None) -> Tensor:
    """Give each row the output of its group (eq. 32); a group that began in an earlier pass has kept its own."""
    begins_here = groups.new[groups.first]
    number = np.cumsum(begins_here) - 1
    if pending is not None:
        out = ops.concatenate(Tensor(pending.outputs), out)
        number = np.where(begins_here, number + len(pending.open), groups.source[groups.first])
    return rows_at(out, number[groups.group[groups.new]])


def _store(memory: Array, x: Tensor, layout: Layout) -> None:
    """Keep the last row of each text."""
    if len(x):
        memory[...] = x.data[layout.offsets[1:] - 1]
