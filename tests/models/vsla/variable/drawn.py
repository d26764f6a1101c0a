"""Hypothesis strategies for the laws of the algebra: small whole numbers, whose sums and products are exact."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from minigrad import Tensor
from models.vsla.variable import VarTensor, zero_extend


@st.composite
def tensors(draw: DrawFn, axes: int = 1, shape: tuple[int, ...] | None = None) -> Tensor:
    """Draw a tensor of whole numbers, of a certain shape or of any, with zeros also at its end."""
    shape = tuple(draw(st.integers(0, 4)) for _ in range(axes)) if shape is None else shape
    size = int(np.prod(shape))
    numbers = draw(st.lists(st.integers(-2, 2), min_size=size, max_size=size))
    return Tensor(np.array(numbers, float).reshape(shape))


@st.composite
def groups(draw: DrawFn, count: int) -> list[Tensor]:
    """Draw several tensors with equally many axes."""
    axes = draw(st.integers(1, 3))
    return [draw(tensors(axes)) for _ in range(count)]


@st.composite
def extensions(draw: DrawFn, x: Tensor) -> Tensor:
    """Draw another member of the class of x: the same with zeros appended."""
    return zero_extend(x, shape=tuple(size + draw(st.integers(0, 2)) for size in x.shape))


@st.composite
def var_tensors(draw: DrawFn, count: int | None = None, width: tuple[int, ...] = (2,)) -> VarTensor:
    """Draw packed sequences, empty ones among them."""
    count = draw(st.integers(0, 3)) if count is None else count
    lengths = [draw(st.integers(0, 4)) for _ in range(count)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = [rng.integers(-2, 3, (length, *width)).astype(float) for length in lengths]
    return VarTensor.from_list(parts) if parts else VarTensor.from_list([np.zeros((0, *width))])[:0]


def pairs_of_var_tensors() -> SearchStrategy[tuple[VarTensor, VarTensor]]:
    """Draw two with equally many sequences, of different lengths."""
    return st.integers(0, 3).flatmap(lambda count: st.tuples(var_tensors(count), var_tensors(count)))
