"""Steps, memory and texts to draw, for the twins of the steps of a program.

A step holds the address of its weights. The arrays that are drawn are kept here as long as a call can take.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.decoding import program as codes
from minigrad.kernels.decoding.kept import FORMATS
from minigrad.kernels.decoding.program import Heads, Pattern, Share, Step, Texts
from tests.kernels.decoding.kept_twins import drawn_kept
from tests.kernels.twin import Arguments, Array, numbers

_SIZE = 400  # elements of memory of each text: a source, a target, which may be parts of attention, and these joined
SOURCE, TARGET, JOINED = 3, 48, 350
KEPT: deque[Array] = deque(maxlen=64)
EPS = 1e-3
NORMS = codes.RMS_NORM, codes.OFFSET_RMS_NORM, codes.LAYER_NORM
ACTIVATIONS = codes.GELU, codes.EXACT_GELU, codes.SWIGLU, codes.SIGMOID_GATE, codes.ADD
BLOCK = 2
_PATTERNS = [Pattern(), Pattern(3), Pattern(3, BLOCK), Pattern(top_k=2), Pattern(3, BLOCK, entropy=0.7)]


def address(array: Array) -> int:
    KEPT.append(array)
    return address_of(array)


@st.composite
def shares(draw: DrawFn) -> Share:
    threads = draw(st.integers(1, 3))
    return Share(draw(st.integers(0, threads - 1)), threads)


def memories(draw: DrawFn, dtype: Any) -> Array:
    return numbers(draw, dtype, draw(st.integers(0, 3)), _SIZE)


def span_of(size: int, share: Share) -> slice:
    """Return a thread's share of elements: whole blocks of 16, as equal as can be."""
    cuts = [min(math.ceil(size / 16) * number // share.threads * 16, size) for number in range(share.threads + 1)]
    return slice(cuts[share.number], cuts[share.number + 1])


def texts_of(
    draw: DrawFn, dtype: Any, memory: Array, heads: Heads, positions: int = 6, formats: tuple[str, ...] = ("float32",)
) -> Texts:
    count = len(memory)
    shape = (2, count + 1, positions, heads.kv_heads, heads.size)
    places = np.delete(np.arange(count + 1), draw(st.integers(0, count)))
    lengths = np.array([draw(st.integers(0, positions - 1)) for _ in range(count)], np.int64)
    tokens = np.array([draw(st.integers(0, 4)) for _ in range(count)], np.int64)
    stored = (numbers(draw, dtype, *shape), numbers(draw, dtype, *shape))
    far = (x.reshape(2, count + 1, -1, BLOCK, heads.kv_heads, heads.size).mean(3) for x in stored)
    kept = (drawn_kept(draw, x, formats) for x in (*stored, *far))
    sums = numbers(draw, np.float64, 2, count + 1, 40)
    return Texts(tokens, lengths, places, *kept, sums)


@st.composite
def drawn_heads(draw: DrawFn, dtype: Any) -> Heads:
    kv_heads, group, size = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.sampled_from([2, 6]))
    angles = [numbers(draw, dtype, 6, size // 2) for _ in range(2)]
    patterns = np.array([draw(st.sampled_from(_PATTERNS)) for _ in range(2)], np.float64)
    return Heads(kv_heads * group, kv_heads, size, patterns, angles[0], angles[1], draw(st.booleans()))


def step_arguments(choice: tuple[int, ...], *kinds: str) -> Any:
    """Return a strategy of (memory, step, others..., share) for a step on heads or on a register of any size."""

    @st.composite
    def arguments(draw: DrawFn, dtype: Any) -> Arguments:
        code = draw(st.sampled_from(choice))
        memory, heads = memories(draw, dtype), draw(drawn_heads(dtype))
        queries, keys = (count * heads.size for count in (heads.num_heads, heads.kv_heads))
        size = {codes.ROTATE: draw(st.sampled_from([queries, keys])), codes.STORE: keys, codes.ATTEND: queries}.get(
            code, draw(st.sampled_from([1, 16, 40]))
        )
        rows, adds = (5 if code == codes.EMBED else 1), int(draw(st.booleans()))
        if code == codes.EMBED and adds:
            rows = 6  # of positions
        weight = address(numbers(draw, dtype, rows, size))
        has_bias = code in (codes.LAYER_NORM, codes.OFFSET_RMS_NORM)
        bias = address(numbers(draw, dtype, size)) if has_bias else 0
        inputs = rows if code == codes.EMBED else size
        layer = draw(st.integers(0, 1))
        step = Step(code, SOURCE, TARGET, inputs, size, weight, bias, adds, layer)
        drawn = {
            "heads": heads,
            "texts": texts_of(
                draw,
                dtype,
                memory,
                heads,
                draw(st.sampled_from([6, 80])) if code == codes.ATTEND else 6,
                FORMATS if code == codes.STORE else FORMATS[:1],
            ),
            "eps": EPS,
            "share": draw(shares()),
        }
        return [memory, step, *(drawn[kind] for kind in kinds)]

    return arguments


def texts_of_share(memory: Array, share: Share) -> range:
    return range(share.number, len(memory), share.threads)
