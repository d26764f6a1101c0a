"""Asking for memory ahead: the processor fetches cache lines while a loop still computes on others.

Processors do so by themselves for memory that is read from front to back, some of them not far enough ahead for weights
that are read once. They do not see a pattern in keys and values: each head reads a part of every position.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir

from minigrad.kernels.codegen.llvm import BYTE, WORD, declare, pointer_at
from minigrad.kernels.jit import emits, overload, types
from minigrad.typing import Array


def line_of(system: str, machine: str) -> int:
    """Return the bytes of a cache line: 64, but 128 in Apple's own processors."""
    return 128 if (system, machine) == ("Darwin", "arm64") else 64


CACHE_LINE = line_of(platform.system(), platform.machine())  # bytes


def prefetch(x: Array) -> None:
    """Ask for all cache lines of a contiguous array that is read soon. A hint: plain Python needs none."""


@overload(prefetch)
def _prefetch(x):  # type: ignore[no-untyped-def]
    step = CACHE_LINE * 8 // x.dtype.bitwidth

    def lines(x):  # type: ignore[no-untyped-def]
        for index in range(0, x.size, step):
            _fetch(x, index)

    return lines


def _fetch(x: Array, index: int) -> None:
    """Ask for the cache line that holds an element; only kernels call this."""


@emits(_fetch, types.void, None, types.int64)
def _emit_fetch(builder: Any, x: Any, index: Any) -> None:
    emit_prefetch(builder, pointer_at(builder, x.data, index, BYTE))


def emit_prefetch(builder: Any, place: Any) -> None:
    """Ask for the cache line at `place`, a pointer to a byte. It is a hint: the memory need not exist."""
    function = declare(builder, "llvm.prefetch.p0i8", ir.VoidType(), [BYTE.as_pointer(), WORD, WORD, WORD])
    to_read, soon_and_often, data = (ir.Constant(WORD, number) for number in (0, 3, 1))
    builder.call(function, [place, to_read, soon_and_often, data])
