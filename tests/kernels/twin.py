"""What the tables of twins share: a row of the table, and strategies for arrays.

Every kernel has a plain NumPy twin. A row of a table holds a strategy for the arguments of one call and a twin with the
same arguments. Kernel and twin get equal copies, and afterwards every array must agree: results where rows were asked
for, nothing touched elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

Array = NDArray[Any]
Arguments = list[Any]

UNTOUCHED = 7.0  # what results hold beforehand
_FENCE, _UNWRITTEN = 4096, 0xA5
WIDTHS = st.sampled_from([1, 2, 3, 15, 16, 17, 40])


@dataclass(frozen=True)
class Twin:
    """How to call a kernel (`arguments` of a dtype), the same in plain NumPy, and what stands in without Numba.

    `error` is the absolute error that a returned value may have, where its relative error has no bound. The last
    `scratch` arguments are scratch memory and are not compared. A kernel that returns memory for others to write is
    compared by the sizes of its arrays (`only_sizes`). `overrun` is how many words a kernel may write behind the end of
    an array.
    """

    arguments: Callable[[Any], SearchStrategy[Arguments]]
    twin: Callable[..., Any]
    portable: Callable[..., Any] | None = None
    error: float = 0.0
    scratch: int = 0
    only_sizes: bool = False
    overrun: int = 0


def leaves(value: Any) -> list[Any]:
    """Return the arrays and numbers in nested tuples, in order."""
    if isinstance(value, tuple | list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


def fenced(value: Any, fences: list[Array]) -> Any:
    """Return a copy in which every array lies between two fences, bytes that nobody may write; append these."""
    if isinstance(value, tuple | list):
        each = [fenced(item, fences) for item in value]
        return type(value)(*each) if hasattr(value, "_fields") else type(value)(each)
    if not isinstance(value, np.ndarray):
        return value
    lines = value.T if value.flags.f_contiguous else value
    memory = np.full(lines.nbytes + 2 * _FENCE, _UNWRITTEN, np.uint8)
    fences += memory[:_FENCE], memory[-_FENCE:]
    copied = memory[_FENCE:-_FENCE].view(lines.dtype).reshape(lines.shape)
    copied[...] = lines
    return copied.T if value.flags.f_contiguous else copied


def side_by_side(arguments: Arguments, gap: int) -> Arguments:
    """Return copies of arguments whose arrays lie one behind the other, with `gap` bytes between them."""
    sizes = [-(-leaf.nbytes // 8) * 8 + gap for leaf in leaves(arguments) if isinstance(leaf, np.ndarray)]
    memory, places = np.zeros(sum(sizes), np.uint8), iter(np.cumsum([0, *sizes]))

    def copied(value: Any) -> Any:
        if isinstance(value, tuple | list):
            each = [copied(item) for item in value]
            return type(value)(*each) if hasattr(value, "_fields") else type(value)(each)
        if not isinstance(value, np.ndarray):
            return value
        is_transposed = not value.flags.c_contiguous
        lines, place = value.T if is_transposed else value, next(places)
        array = memory[place : place + lines.nbytes].view(lines.dtype).reshape(lines.shape)
        array[...] = lines
        return array.T if is_transposed else array

    return [copied(each) for each in arguments]


def written(fences: list[Array], overrun: int) -> list[int]:
    """Return the numbers of those fences that were written, but for `overrun` words behind an array."""
    rest = (fence[4 * overrun * (number % 2) :] for number, fence in enumerate(fences))
    return [number for number, fence in enumerate(rest) if (fence != _UNWRITTEN).any()]


def numbers(draw: DrawFn, dtype: Any, *shape: int, scale: float = 1.0) -> Array:
    """Draw normal values; Hypothesis chooses only the seed, which keeps large arrays cheap."""
    seed = draw(st.integers(0, 2**16))
    return np.random.default_rng(seed).normal(0, scale, shape).astype(dtype)


def span(draw: DrawFn, rows: int) -> list[int]:
    """Draw the start and the stop of a range within `rows`."""
    return sorted((draw(st.integers(0, rows)), draw(st.integers(0, rows))))


def untouched(array: Array) -> Array:
    """Return an array like this one, in which a kernel is to write."""
    return np.full_like(array, UNTOUCHED)


@st.composite
def _rows(draw: DrawFn, dtype: Any, inputs: int, outputs: int, scale: float = 3.0) -> Arguments:
    rows, width = draw(st.integers(0, 5)), draw(WIDTHS)
    given = [numbers(draw, dtype, rows, width, scale=scale) for _ in range(inputs)]
    return [*given, *(np.full((rows, width), UNTOUCHED, dtype) for _ in range(outputs)), *span(draw, rows)]


def rows(inputs: int, outputs: int) -> Callable[[Any], SearchStrategy[Arguments]]:
    """Return arguments (inputs..., outputs..., start, stop) of one shape."""
    return lambda dtype: _rows(dtype, inputs, outputs)


def flat(inputs: int) -> Callable[[Any], SearchStrategy[Arguments]]:
    """Return arguments (inputs..., output, start, stop), each array flat."""

    @st.composite
    def arguments(draw: DrawFn, dtype: Any) -> Arguments:
        size = draw(st.integers(0, 40))
        given = [numbers(draw, dtype, size, scale=2) for _ in range(inputs)]
        return [*given, np.full(size, UNTOUCHED, dtype), *span(draw, size)]

    return arguments
