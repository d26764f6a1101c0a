"""Hypothesis strategies for products with matrices in fewer bits, and the products of the values they stand for."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minigrad.kernels.decoding.lines import CODES, Packed, pack, widen
from minigrad.ops.matmul import linear_formula
from tests.op_cases import Array, Case, normal, shapes, values


@st.composite
def linear(draw: DrawFn) -> Case:
    """Draw few or many rows, a matrix in any format, and perhaps a bias."""
    lead, inputs = draw(shapes().map(lambda shape: shape[:2])), draw(st.sampled_from([3, 1, 2, 17, 33]))
    outputs, format = draw(st.sampled_from([2, 1, 0, 5])), draw(st.sampled_from(sorted(CODES)))
    x, weight, *bias = values(draw, normal, (*lead, inputs), (outputs, inputs), *[(outputs,)] * draw(st.booleans()))
    return Case((x, *bias), {"matrix": pack(weight, format)})


def linear_reference(x: Array, bias: Array | None = None, *, matrix: Packed) -> Array:
    weight = widen(matrix, np.arange(matrix.shape[0])).astype(np.float64)
    return linear_formula(x, weight, bias)
