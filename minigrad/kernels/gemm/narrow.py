"""Products of a few rows, or of a few columns, which read the long factor once; and rounding to bfloat16.

A product of one row, as when a model writes a token, does two FLOPs for each weight: reading the weights takes the
time, and a packed copy of them, which is written once and read once, would take three times as long. So the long factor
is read where it lies. Lanes are its rows if it is the left factor, its columns if it is the right one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.kernels.codegen.bits import rounded_to_bfloat16
from minigrad.kernels.gemm.packing import Matrix
from minigrad.kernels.gemm.panels import matrix_of
from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import rows_of, share_rows
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

NARROW = 4
"""The most rows (or columns) of such a product: with more, packing is about as fast."""

_TOGETHER = 512  # lanes whose sums stay in the first-level cache


@kernel
def _round_rows(x: Array, y: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        for j in range(x.shape[1]):
            y[i, j] = rounded_to_bfloat16(x[i, j])


def round_bfloat16(x: Array) -> Array:
    """Return a float32 array with every element rounded to bfloat16; a transposed matrix stays transposed."""
    if x.flags.f_contiguous and not x.flags.c_contiguous:
        return round_bfloat16(x.T).T
    rows = rows_of(x)
    y = np.empty_like(rows)
    share_rows(_round_rows, 1, rows, y)
    return y.reshape(x.shape)


@kernel
def dot(x: Array, y: Array, rounding: bool) -> Any:
    """Return the sum of products of two vectors; y is rounded to bfloat16 first if `rounding` says so."""
    total = x.dtype.type(0)
    if rounding:
        for k in range(x.size):
            total += x[k] * rounded_to_bfloat16(y[k])
    else:
        for k in range(x.size):
            total += x[k] * y[k]
    return total


@kernel
def multiply_lanes(few: Array, many: Matrix, rounding: bool, y: Array, start: int, stop: int) -> None:
    """Set y[i, lane] to the product of row i of `few` and a lane of `many`, whose lines are its lanes."""
    for lane in range(start, stop):
        first = many.start + lane * many.stride
        line = many.elements[first : first + many.steps]
        for i in range(few.shape[0]):
            y[i, lane] = dot(few[i], line, rounding)


@kernel
def multiply_steps(few: Array, many: Matrix, rounding: bool, y: Array, start: int, stop: int) -> None:
    """Set the same elements where the lines of `many` are the steps of the sum."""
    for begin in range(start, stop, _TOGETHER):
        end = min(begin + _TOGETHER, stop)
        y[:, begin:end] = 0
        for step in range(many.steps):
            first = many.start + step * many.stride
            line = many.elements[first + begin : first + end]
            for i in range(few.shape[0]):
                factor, sums = few[i, step], y[i, begin:end]
                if rounding:
                    for j in range(line.size):
                        sums[j] += factor * rounded_to_bfloat16(line[j])
                else:
                    for j in range(line.size):
                        sums[j] += factor * line[j]


def multiply_narrow(a: Array, b: Array, out: Array, rounding: bool) -> None:
    """Set `out` to a @ b, float32, where one has few lanes; with `rounding` both are rounded to bfloat16.

    Shapes: a (M, K), b (K, N), out (M, N). Every sum is added in one order whatever the number of threads; the order
    depends on which axis of the long factor is contiguous.
    """
    few, long = (a, b.T) if len(a) <= b.shape[1] else (b.T, a)
    few, many = np.require(round_bfloat16(few) if rounding else few, np.float32, ["C", "A", "W"]), matrix_of(long)
    y = np.empty((len(few), many.lanes), np.float32)
    loop = multiply_steps if many.transposed else multiply_lanes
    over_rows(lambda start, stop: loop(few, many, rounding, y, start, stop), many.lanes, len(few) * many.steps)
    out[...] = y if len(a) <= b.shape[1] else y.T
