"""Matrices in small formats: rounded to numbers of 16, 8 or 4 bits, packed for decoding, and widened to floats again.

Whole numbers stand for floats through a scale: w is about q * scale. In int8 each line, the weights of one output, has
a scale: its largest |w| over 127. In int4 each group of 32 elements has one, because sixteen numbers are too few for a
line: the element that is farthest from 0 becomes -8, whatever its sign, so that all sixteen numbers are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minigrad.errors import InputError
from minigrad.kernels.codegen.addresses import address_of, elements_at
from minigrad.kernels.codegen.bits import float32_of, float32_of_float16
from minigrad.kernels.codegen.line_products import Lines
from minigrad.kernels.codegen.line_tile import BFLOAT16, FLOAT16, FULL, GROUP, GROUP_BYTES, INT4, INT8, LINES
from minigrad.kernels.gemm.narrow import round_bfloat16
from minigrad.kernels.jit import kernel
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array

CODES = {"float16": FLOAT16, "bfloat16": BFLOAT16, "int8": INT8, "int4": INT4}
"""The formats by name."""
LARGEST = {"float16": 65_504.0, "bfloat16": 3.38e38, "int8": 3.4e38, "int4": 524_032.0}
"""The largest number that a format holds; that of int4 is 8 times a scale, which is a float16."""

_TOGETHER = 1 << 18  # elements that are rounded at a time: their floats stay in the cache


class Stored(NamedTuple):
    """A matrix in a small format as a file holds it: line by line.

    Elements are float16 (outputs, inputs); of bfloat16 their bits, uint16; int8; of int4 uint8 (outputs, groups * 16),
    each byte with two numbers of a group (see `minigrad.kernels.codegen.line_products`). Scales are float32 (outputs,)
    of int8, float16 (outputs, groups) of int4, else None.
    """

    elements: Array
    scales: Array | None = None


class Packed(NamedTuple):
    """A matrix in a small format as decoding reads it: the groups of four lines follow each other.

    Shapes: elements (blocks of LINES lines, groups, LINES, bytes of a group) uint8; scales as they are stored, those of
    int4 (blocks, groups, LINES). The padding is 0.
    """

    format: str
    shape: tuple[int, int]  # (outputs, inputs)
    elements: Array
    scales: Array

    @classmethod
    def empty(cls, format: str, shape: tuple[int, int]) -> Packed:
        """Return a matrix of zeros."""
        outputs, inputs = shape
        blocks, groups = -(-outputs // LINES), -(-inputs // GROUP)
        elements = np.zeros((blocks, groups, LINES, GROUP_BYTES[CODES[format]]), np.uint8)
        if format == "int4":
            return cls(format, shape, elements, np.zeros((blocks, groups, LINES), np.float16))
        return cls(format, shape, elements, np.zeros(outputs if format == "int8" else 0, np.float32))

    def insert(self, first: int, part: Stored) -> None:
        """Store lines `first`, a multiple of LINES, and following."""
        count = len(part.elements)
        place = slice(first // LINES, -(-(first + count) // LINES))
        if part.scales is not None:
            if self.format == "int8":
                self.scales[first : first + count] = part.scales
            else:
                self.scales[place] = _in_blocks(part.scales).swapaxes(1, 2)
        lines = part.elements.view(np.uint8)  # (lines, bytes)
        missing = self.elements.shape[1] * self.elements.shape[3] - lines.shape[1]
        blocks = _in_blocks(np.pad(lines, ((0, 0), (0, missing))))
        self.elements[place] = blocks.reshape(*blocks.shape[:2], -1, self.elements.shape[3]).swapaxes(1, 2)

    @property
    def stored_type(self) -> Any:
        """The type of the elements in a file."""
        return {"float16": np.float16, "bfloat16": np.uint16, "int8": np.int8, "int4": np.uint8}[self.format]

    def stored_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """Return the shapes of the elements and the scales in a file."""
        (outputs, inputs), groups = self.shape, self.elements.shape[1]
        if self.format == "int4":
            return (outputs, groups * GROUP // 2), (outputs, groups)
        return (outputs, inputs), (outputs,) if self.format == "int8" else None

    def stored(self) -> Stored:
        """Return the matrix as a file holds it."""
        outputs, inputs = self.shape
        blocks, groups = self.elements.shape[:2]
        lines = self.elements.swapaxes(1, 2).reshape(blocks * LINES, -1)[:outputs].view(self.stored_type)
        elements = np.ascontiguousarray(lines if self.format == "int4" else lines[:, :inputs])
        if self.format != "int4":
            return Stored(elements, self.scales if self.format == "int8" else None)
        scales = self.scales.swapaxes(1, 2).reshape(blocks * LINES, groups)[:outputs]
        return Stored(elements, np.ascontiguousarray(scales))

    def lines(self) -> Lines:
        """Return the matrix as numbers; it must be kept alive."""
        outputs, inputs = self.shape
        return Lines(CODES[self.format], address_of(self.elements), inputs, outputs, address_of(self.scales))


def _in_blocks(lines: Array) -> Array:
    """Return lines (lines, n) as (blocks, LINES, n), filled with lines of zeros."""
    return np.pad(lines, ((0, -len(lines) % LINES), (0, 0))).reshape(-1, LINES, lines.shape[1])


def pack(matrix: Array, format: str) -> Packed:
    """Round a matrix of floats (outputs, inputs); raises InputError for numbers that the format cannot hold."""
    found = Packed.empty(format, (matrix.shape[0], matrix.shape[1]))
    step = max(LINES, _TOGETHER // max(matrix.shape[1], 1) // LINES * LINES)

    def loop(start: int, stop: int) -> None:
        for number in range(start, stop):
            part = np.ascontiguousarray(matrix[number * step : (number + 1) * step], np.float32)
            if not np.abs(part).max(initial=0) <= LARGEST[format]:
                raise InputError(f"weights that are not finite, or above {LARGEST[format]:g}, do not fit {format}")
            found.insert(number * step, _ROUNDING[format](part))

    over_rows(loop, -(-len(matrix) // step), 10 * step * matrix.shape[1])
    return found


def _rounded_to_int8(part: Array) -> Stored:
    scales = np.abs(part).max(axis=1, initial=0) / np.float32(127)
    safe = np.where(scales > 0, scales, np.float32(1))
    # A scale below the normal numbers is itself rounded, so a quotient may be beyond 127.
    return Stored(np.rint(part / safe[:, None]).clip(-127, 127).astype(np.int8), scales)


def _rounded_to_int4(part: Array) -> Stored:
    groups = np.pad(part, ((0, 0), (0, -part.shape[1] % GROUP))).reshape(len(part), -1, GROUP)
    farthest = np.take_along_axis(groups, np.abs(groups).argmax(axis=2)[..., None], axis=2)
    scales = (farthest / np.float32(-8)).astype(np.float16)  # (lines, groups, 1)
    safe = np.where(scales != 0, scales, np.float16(1)).astype(np.float32)
    numbers = np.rint(groups / safe).clip(-8, 7).astype(np.int8)
    pairs = (numbers[..., : GROUP // 2] & 15) | (numbers[..., GROUP // 2 :] << 4)
    return Stored(pairs.view(np.uint8).reshape(len(part), -1), scales[..., 0])


_ROUNDING: dict[str, Callable[[Array], Stored]] = {
    "float16": lambda part: Stored(part.astype(np.float16)),
    "bfloat16": lambda part: Stored((round_bfloat16(part).view(np.uint32) >> np.uint32(16)).astype(np.uint16)),
    "int8": _rounded_to_int8,
    "int4": _rounded_to_int4,
}


def widen(matrix: Packed, numbers: Array) -> Array:
    """Return the lines of these numbers, int64 (n,), as floats, (n, inputs) float32."""
    lines, out = matrix.lines(), np.empty((len(numbers), matrix.shape[1]), np.float32)
    over_rows(lambda start, stop: widen_lines(lines, numbers, out, start, stop), len(out), 4 * matrix.shape[1])
    return out


@kernel
def widen_lines(lines: Lines, numbers: Array, out: Array, start: int, stop: int) -> None:
    """Set row i of out to line numbers[i], for i from `start` to `stop`."""
    for i in range(start, stop):
        widen_line(lines, numbers[i], out[i])


@kernel
def widen_line(lines: Lines, number: int, out: Array) -> None:
    """Set out (inputs,) to a line."""
    if lines.format == FULL:
        elements = elements_at(lines.address, lines.outputs * lines.inputs, out.dtype)
        for j in range(out.size):
            out[j] = elements[number * out.size + j]
        return
    groups = (lines.inputs + GROUP - 1) // GROUP
    for group in range(groups):
        # Groups are counted as they follow each other in memory.
        place = (number // LINES * groups + group) * LINES + number % LINES
        part = out[group * GROUP : (group + 1) * GROUP]
        if lines.format == FLOAT16:
            halves = elements_at(lines.address + place * 2 * GROUP, GROUP, np.uint16)
            for j in range(part.size):
                part[j] = float32_of_float16(halves[j])
        elif lines.format == BFLOAT16:
            halves = elements_at(lines.address + place * 2 * GROUP, GROUP, np.uint16)
            for j in range(part.size):
                part[j] = float32_of(np.uint32(halves[j]) << np.uint32(16))
        elif lines.format == INT8:
            numbers = elements_at(lines.address + place * GROUP, GROUP, np.int8)
            scale = elements_at(lines.scales, lines.outputs, np.float32)[number]
            for j in range(part.size):
                part[j] = np.float32(numbers[j]) * scale
        else:
            pairs = elements_at(lines.address + place * (GROUP // 2), GROUP // 2, np.int8)
            scale = float32_of_float16(elements_at(lines.scales, place + 1, np.uint16)[place])
            for j in range(min(part.size, GROUP // 2)):
                part[j] = np.float32(((pairs[j] & 15) ^ 8) - 8) * scale  # the lower half, with its sign
            for j in range(GROUP // 2, part.size):
                part[j] = np.float32(pairs[j - GROUP // 2] >> 4) * scale


@kernel
def scales_of_groups(lines: Lines, first: int, out: Array) -> None:
    """Set out (groups * LINES,) to the scales of the groups of four lines; nothing, if it is empty."""
    # A slice of its own, counted from 0, is what lets the compiler convert many at a time.
    stored = elements_at(lines.scales + 2 * (first // LINES * out.size), out.size, np.uint16)
    for j in range(out.size):
        out[j] = float32_of_float16(stored[j])
