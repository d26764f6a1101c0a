"""Products of four lines with vectors, in every format: compiled as in plain Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.codegen.line_products import Lines, Vectors, multiply_lines
from minigrad.kernels.codegen.line_tile import BFLOAT16, FLOAT16, FULL, GROUP, GROUP_BYTES, INT4, INT8, LINES, TEXTS

RNG = np.random.default_rng(0)
SOURCE = 3  # elements of memory before the vectors


@numba.njit
def compiled(lines: Any, first: int, vectors: Any, text: int, scales: Any, sums: Any) -> None:
    multiply_lines(lines, first, vectors, text, scales, sums)


def stored(kind: int, inputs: int, outputs: int, dtype: Any) -> Any:
    """Return memory with random weights in a format; what is filled up is random too, and must not count."""
    groups, blocks = -(-inputs // GROUP), -(-outputs // LINES)
    if kind == FULL:
        return RNG.normal(size=(outputs, inputs)).astype(dtype)
    size = blocks * groups * LINES * GROUP
    if kind == FLOAT16:
        return RNG.normal(size=size).astype(np.float16)
    if kind == BFLOAT16:
        return (RNG.normal(size=size).astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return RNG.integers(-128, 128, size * GROUP_BYTES[kind] // GROUP).astype(np.int8)


def results(call: Any, lines: Lines, memory: Any, scales: Any) -> Any:
    """Return the products of all lines with all texts, (texts, outputs)."""
    out = np.full((len(memory), lines.outputs), np.nan, memory.dtype)
    for first in range(0, lines.outputs, LINES):
        for text in range(0, len(memory), TEXTS):
            sums = np.zeros(TEXTS * LINES, memory.dtype)
            call(lines, first, Vectors(memory, SOURCE), text, scales, sums)
            found = sums.reshape(TEXTS, LINES)[: len(memory) - text, : lines.outputs - first]
            out[text : text + TEXTS, first : first + LINES] = found
    return out


@pytest.mark.parametrize(
    ("kind", "dtype"), [(FULL, "float64"), *((kind, "float32") for kind in (FULL, FLOAT16, BFLOAT16, INT8, INT4))]
)
def test_compiled_and_plain_give_the_same_products(kind: int, dtype: str) -> None:
    for inputs in (1, 16, 31, 32, 90, 128):
        for outputs in (1, 4, 7):
            weights = stored(kind, inputs, outputs, dtype)
            memory = np.full((TEXTS + 1, SOURCE + inputs + 40), np.nan, dtype)  # what is behind a vector is not read
            memory[:, SOURCE : SOURCE + inputs] = RNG.normal(size=(TEXTS + 1, inputs))
            scales = RNG.random(-(-inputs // GROUP) * LINES).astype(np.float32)
            lines = Lines(kind, address_of(weights), inputs, outputs)
            found, expected = (results(call, lines, memory, scales) for call in (compiled, multiply_lines))
            tolerance = (1e-13 if dtype == "float64" else 1e-5) * max(1, np.abs(expected).max())
            np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0)
