"""What only Wiola can show of a text that it read: its gates, what it takes from layers below, and its merges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad import ops
from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.pages.explain.panel import Pairs, Panel, Shares
from minigrad.pages.explain.trace import Trace
from minigrad.typing import Array
from models.wiola.config import WiolaConfig
from models.wiola.merging import find_groups

_GATES = """Each layer mixes two things into its attention: what it reads in the text, and summaries of the layers \
below it. First column: the share of those summaries. Second: how far the gate of the attention is open, from 0%, \
which lets nothing pass, to 100%. Third: the feed-forward block blends a narrow and a wide stream, and this is the \
share of the narrow one. The last two are averages over the tokens."""

_MERGES = (
    "Neighbouring tokens whose inner states point in nearly the same direction are joined (a cosine above {bound}; \
the number under a pair). "
)
_WRITING = {
    True: "A joined pair shares {shared} in these layers: that saves work.",
    False: "In training a joined pair shares {shared} in these layers. While this model writes it joins none \
(atm_at_generation is off): shown is what its rule says about this text.",
}


def panels(config: WiolaConfig, layers: Sequence[Any], trace: Trace) -> list[Panel]:
    """Return a table of the gates of each layer, and the pairs that the merging layers join."""
    found: list[Panel] = [_gates(layers, trace)]
    if config.merging_layers:
        found.append(_merges(config, layers, trace))
    return found


def _gates(blocks: Sequence[Any], trace: Trace) -> Shares:
    gates = {
        (operation.layer, operation.name): _open(operation.arrays[-1])
        for operation in trace.operations
        if operation.name in ("sigmoid_gate", "blend")
    }
    rows = {}
    for number, layer in enumerate(blocks):
        beta = _open(layer.attn.blend_logit.data) if number else None  # the first has no layer below it
        rows[f"layer {number + 1}"] = [beta, gates[number, "sigmoid_gate"], gates[number, "blend"]]
    columns = ("layers below", "gate of the attention", "narrow stream")
    return Shares("Wiola's gates", _GATES, columns, rows)


def _merges(config: WiolaConfig, blocks: Sequence[Any], trace: Trace) -> Pairs:
    layers = {}
    for number in config.merging_layers:
        with no_grad():
            rows = blocks[number].input_norm(Tensor(trace.stream[number])).data
        groups = find_groups(rows, np.array([0, len(rows)]), config.atm_threshold, None)
        joined = np.ones(len(rows), bool)
        joined[groups.first] = False
        layers[f"Layer {number + 1}"] = joined, _cosines(rows)
    shared = "a key and a value" if config.atm == "kv_only" else "its attention"
    words = _MERGES.format(bound=config.atm_threshold) + _WRITING[config.atm_at_generation].format(shared=shared)
    return Pairs("Wiola's merges", words, layers)


def _cosines(rows: Array) -> Array:
    """Return the cosine of each row with the row before it, 0 for the first: (rows, C) -> (rows,)."""
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(rows.dtype).tiny)
    return np.concatenate([[0.0], (units[1:] * units[:-1]).sum(axis=1)])


def _open(gate: Array) -> float:
    """Return the share that a gate lets pass, on average over its elements."""
    return float(ops.sigmoid(gate).data.mean())
