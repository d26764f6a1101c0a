"""Rules: the steps of a program that compute each operation of the layers.

The lines of a matrix are read where they lie. An addition is a step of its own here; `minigrad.programs.registers`
lets the step before it add to its target instead, as it does for a residual stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.kernels.decoding import program as codes
from minigrad.kernels.decoding.attention import PARTS
from minigrad.kernels.decoding.lines import Packed
from minigrad.kernels.decoding.program import Pattern
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layers import Conv1D
from minigrad.nn.layout import Layout
from minigrad.nn.rotary import RotaryAngles
from minigrad.programs import trace as tracing
from minigrad.programs.registers import Program, assemble
from minigrad.programs.trace import POSITIONS, TOKENS, Instruction, Recorder, Span, Unknown, UntraceableError, lowers
from minigrad.typing import Array


class StoredRows(Unknown):
    """All keys or all values, as `name` says, that the cache holds of a layer."""

    __slots__ = ("layer", "name", "ranges")

    def __init__(self, name: str, like: Unknown, layer: int, ranges: Array) -> None:
        super().__init__(like.shape, like.dtype, ())
        self.name, self.layer, self.ranges = name, layer, ranges


class Gate(Unknown):
    """An activation function of a tensor that is still to be multiplied by another one, in the step `code`."""

    __slots__ = ("code", "of")

    def __init__(self, code: int, of: Unknown) -> None:
        super().__init__(of.shape, of.dtype, ())
        self.code, self.of = code, of


def _moves(operation: Callable[..., Any]) -> None:
    """Make a rule for an operation that only moves elements: done with their numbers, it says where they go."""

    @lowers(operation)
    def rule(trace: Recorder, *parts: Unknown, **options: Any) -> Unknown:
        widths, numbered = [part.width for part in parts], []
        for part, first in zip(parts, np.cumsum([0, *widths]), strict=False):
            numbers = np.arange(trace.rows)[:, None] * sum(widths) + first + np.arange(part.width)
            numbered.append(numbers.reshape(part.shape))
        moved, _ = operation.__wrapped__(*numbered, **options)  # type: ignore[attr-defined]
        rows = moved.reshape(trace.rows, -1)
        first, size = int(rows[0, 0]), rows.shape[1]
        expected = first + np.arange(trace.rows)[:, None] * sum(widths) + np.arange(size)
        if len(moved) != trace.rows or not np.array_equal(rows, expected):
            raise UntraceableError("elements move between rows, or do not stay in order")
        joined = Unknown((trace.rows, sum(widths)), parts[0].dtype, [span for part in parts for span in part.spans])
        return Unknown(moved.shape, joined.dtype, joined.part(first, size))


for _operation in (ops.reshape, ops.slice, ops.transpose, ops.concatenate, ops.stack):
    _moves(_operation)


def look_up(trace: Recorder, table: Tensor | Packed, ids: Unknown, dtype: DTypeLike) -> Unknown:
    """Look up the row of a token, or of its position."""
    ((register, _, _),) = ids.spans
    if register not in (TOKENS, POSITIONS):
        raise UntraceableError("a step looks up the row of a token or of its position")
    if table.shape[0] < trace.looked_up[register]:
        raise UntraceableError("a table has fewer rows than there are tokens, or positions")
    shape = (*ids.shape, table.shape[1])
    return trace.add(codes.EMBED, (), shape, dtype, adds=int(register == POSITIONS), operands=(table,))


def norm(trace: Recorder, code: int, x: Unknown, eps: float, *operands: Tensor) -> Unknown:
    """Normalise rows; all norms of a program have the same eps."""
    if x.shape != (trace.rows, *operands[0].shape):
        raise UntraceableError("a step normalises whole rows")
    trace.agree(eps=eps)
    return trace.step(code, x, operands=operands)


lowers(ops.embedding)(lambda trace, table, ids: look_up(trace, table, ids, table.dtype))
lowers(Conv1D.forward)(lambda trace, layer, x: trace.linear(x, *reversed(layer.weight.shape), layer, layer.bias))
lowers(ops.rms_norm)(lambda trace, x, weight, *, eps=1e-5: norm(trace, codes.RMS_NORM, x, eps, weight))
lowers(ops.layer_norm)(lambda trace, x, weight, bias, *, eps=1e-5: norm(trace, codes.LAYER_NORM, x, eps, weight, bias))
lowers(ops.silu)(lambda trace, x: Gate(codes.SWIGLU, x))
lowers(ops.sigmoid)(lambda trace, x: Gate(codes.SIGMOID_GATE, x))
lowers(ops.swiglu)(lambda trace, gate, up: trace.step(codes.SWIGLU, gate, over=up))


@lowers(ops.linear)
def _linear(
    trace: Recorder, x: Unknown, weight: Tensor, bias: Tensor | None = None, *, inputs_first: bool = False
) -> Unknown:
    if inputs_first:
        raise UntraceableError("a matrix has a line for each output")
    return trace.linear(x, *weight.shape, weight, bias)


@lowers(ops.add)
def _add(trace: Recorder, a: Unknown, b: Unknown) -> Unknown:
    if a.shape != b.shape or [span.size for span in a.spans] != [span.size for span in b.spans]:
        raise UntraceableError("a step adds elements that lie side by side to others that do")
    spans = list[Span]()
    for one, other in zip(a.spans, b.spans, strict=True):
        x, y = (Unknown((trace.rows, span.size), a.dtype, [span]) for span in (one, other))
        spans += trace.step(codes.ADD, y, over=x).spans
    return Unknown(a.shape, a.dtype, spans)


@lowers(ops.gelu)
def _gelu(trace: Recorder, x: Unknown, *, approximate: str = "none") -> Unknown:
    return trace.step(codes.EXACT_GELU if approximate == "none" else codes.GELU, x)


@lowers(ops.multiply)
def _multiply(trace: Recorder, a: Unknown, b: Unknown) -> Unknown:
    gate, x = (a, b) if isinstance(a, Gate) else (b, a)
    if not isinstance(gate, Gate) or gate.shape != x.shape:
        raise UntraceableError("a step multiplies by a gate")
    return trace.step(gate.code, gate.of, over=x)


@lowers(ops.swiglu_linear)
def _swiglu_linear(trace: Recorder, gate: Unknown, up: Unknown, weight: Tensor) -> Unknown:
    return trace.linear(trace.step(codes.SWIGLU, gate, over=up), *weight.shape, weight)


@lowers(RotaryAngles.rotate)
def _rotate(trace: Recorder, angles: RotaryAngles, x: Unknown, layout: Layout) -> Unknown:
    if not np.array_equal(layout.positions, trace.positions):
        raise UntraceableError("a step rotates by the position of its token")
    trace.agree(angles=angles, head_size=x.shape[-1])
    return trace.step(codes.ROTATE, over=x)


@lowers(KeyValueCache.append)
def _append(
    trace: Recorder, cache: KeyValueCache, layer: int, k: Unknown, v: Unknown, offsets: Array
) -> tuple[StoredRows, StoredRows, Array]:
    is_one_token = np.array_equal(offsets, np.arange(trace.rows + 1))
    if cache is not trace.cache or not is_one_token or len(k.spans) != 1 or len(v.spans) != 1:
        raise UntraceableError("a step stores one key and one value in the cache of the pass")
    cache.check_heads(k.shape, v.shape)
    trace.agree(num_kv_heads=k.shape[1], head_size=k.shape[2])
    trace.instructions.append(Instruction(codes.STORE, k.spans, v.spans[0], layer=layer, adds=int(cache.key_shift)))
    ranges = cache.ranges(layer, offsets)
    return StoredRows("keys", k, layer, ranges), StoredRows("values", v, layer, ranges), ranges


@lowers(ops.attention)
def attend(
    trace: Recorder,
    q: Unknown,
    k: StoredRows,
    v: StoredRows,
    *,
    offsets: Array,
    key_ranges: Array,
    pattern: Pattern | None = None,
) -> Unknown:
    """Attend from the query of each text to the keys that a layer has stored and its pattern shows."""
    _, heads, size = q.shape
    if (k.name, k.layer, v.name) != ("keys", v.layer, "values") or not k.ranges is v.ranges is key_ranges:
        raise UntraceableError("a step attends to the keys and values of a layer")
    trace.agree(num_heads=heads, head_size=size)
    if trace.patterns.setdefault(k.layer, pattern or Pattern()) != (pattern or Pattern()):
        raise UntraceableError("a layer has one pattern")
    parts = trace.step(codes.ATTEND, q, width=PARTS * (q.width + 2 * heads), layer=k.layer)
    joined = trace.step(codes.JOIN, parts, width=q.width, layer=k.layer)
    return Unknown(q.shape, q.dtype, joined.spans)


def program_of(model: LanguageModel) -> Program | None:
    """Return the program of a model; None if it depends on the data, or if its steps cannot be lowered."""
    found = tracing.trace(model)
    try:
        return None if found is None else assemble(found)
    except UntraceableError:
        return None
