"""Twins of the loops of Wiola: gates, running means, and the merging scan."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.kernels.rowwise.twins import rows, sigmoid
from tests.kernels.twin import Arguments, Array, Twin, numbers, span, untouched


@st.composite
def sequences(draw: DrawFn) -> Array:
    """Draw the offsets of up to three sequences, some empty."""
    lengths = draw(st.lists(st.integers(0, 5), max_size=3))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@st.composite
def _prefix_arguments(draw: DrawFn, dtype: Any, backward: bool) -> Arguments:
    offsets, width = draw(sequences()), draw(st.integers(1, 3))
    x, sums = numbers(draw, dtype, offsets[-1], width), numbers(draw, np.float64, len(offsets) - 1, width)
    counts = np.array([draw(st.integers(0, 4)) for _ in offsets[1:]], np.int64)
    return [x, offsets, *([] if backward else [sums]), counts, untouched(x), *span(draw, len(counts))]


def _prefix_mean_sequences(
    x: Array, offsets: Array, sums: Array, counts: Array, y: Array, start: int, stop: int
) -> None:
    for s in range(start, stop):
        rows = slice(offsets[s], offsets[s + 1])
        for t in range(rows.start, rows.stop):
            seen = x[rows.start : t + 1].astype(np.float64)
            y[t] = (sums[s] + seen.sum(axis=0)) / (counts[s] + len(seen))


def _prefix_mean_backward_sequences(dy: Array, offsets: Array, counts: Array, dx: Array, start: int, stop: int) -> None:
    for s in range(start, stop):
        length = offsets[s + 1] - offsets[s]
        weights = np.tril(np.ones((length, length))) / (counts[s] + np.arange(1, length + 1))[:, None]
        dx[offsets[s] : offsets[s + 1]] = weights.T @ dy[offsets[s] : offsets[s + 1]]


@st.composite
def _merge_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    # Directions 45 degrees apart and one row of zeros: no cosine comes near the threshold.
    offsets = draw(sequences())
    directions = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [-1, 1]], dtype)
    x = directions[[draw(st.integers(0, 4)) for _ in range(offsets[-1])]] * dtype(draw(st.sampled_from([0.5, 3])))
    threshold = draw(st.sampled_from([0.9, 0.5, -0.5]))
    return [x.reshape(-1, 2), offsets, threshold, np.ones(len(x), bool), *span(draw, len(offsets) - 1)]


def _merge_sequences(x: Array, offsets: Array, threshold: float, joins: Array, start: int, stop: int) -> None:
    for s in range(start, stop):
        i = offsets[s]
        joins[i : offsets[s + 1]] = False
        while i + 1 < offsets[s + 1]:
            norms = np.linalg.norm(x[i]) * np.linalg.norm(x[i + 1])
            joins[i + 1] = (x[i] @ x[i + 1] / norms if norms else 0) > threshold
            i += 2 if joins[i + 1] else 1


def _sigmoid_gate_rows(x: Array, gate: Array, y: Array, start: int, stop: int) -> None:
    y[start:stop] = (x * sigmoid(gate))[start:stop]


def _sigmoid_gate_backward_rows(dy: Array, x: Array, gate: Array, dx: Array, dg: Array, start: int, stop: int) -> None:
    s = sigmoid(gate)
    dx[start:stop], dg[start:stop] = (dy * s)[start:stop], (dy * x * s * (1 - s))[start:stop]


def _blend_rows(a: Array, b: Array, gate: Array, y: Array, start: int, stop: int) -> None:
    s = sigmoid(gate)
    y[start:stop] = (s * a + (1 - s) * b)[start:stop]


@st.composite
def _blend_backward_arguments(draw: DrawFn, dtype: Any) -> Arguments:
    dy, a, b, gate, da, db, dgate, *part = draw(rows(4, 3)(dtype))
    return [dy, (a, b, gate), (da, db, dgate), *part]


def _blend_backward_rows(dy: Array, inputs: Any, gradients: Any, start: int, stop: int) -> None:
    (a, b, gate), (da, db, dgate), part = inputs, gradients, slice(start, stop)
    s = sigmoid(gate)
    da[part], db[part] = (dy * s)[part], (dy * (1 - s))[part]
    dgate[part] = (dy * (a - b) * s * (1 - s))[part]


TWINS: dict[str, Twin] = {
    "models.wiola.kernels.gates._sigmoid_gate_rows": Twin(rows(2, 1), _sigmoid_gate_rows),
    "models.wiola.kernels.gates._sigmoid_gate_backward_rows": Twin(rows(3, 2), _sigmoid_gate_backward_rows),
    "models.wiola.kernels.gates._blend_rows": Twin(rows(3, 1), _blend_rows),
    "models.wiola.kernels.gates._blend_backward_rows": Twin(_blend_backward_arguments, _blend_backward_rows),
    "models.wiola.kernels.merging._merge_sequences": Twin(_merge_arguments, _merge_sequences),
    "models.wiola.kernels.prefix_mean._prefix_mean_sequences": Twin(
        lambda dtype: _prefix_arguments(dtype, backward=False), _prefix_mean_sequences
    ),
    "models.wiola.kernels.prefix_mean._prefix_mean_backward_sequences": Twin(
        lambda dtype: _prefix_arguments(dtype, backward=True), _prefix_mean_backward_sequences
    ),
}
