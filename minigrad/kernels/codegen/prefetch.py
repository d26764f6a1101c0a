"""Asking for memory ahead: the processor fetches cache lines while a loop still computes on others.

Processors do so by themselves for memory that is read from front to back, some of them not far enough ahead for weights
that are read once. They do not see a pattern in keys and values: each head reads a part of every position.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir

from minigrad.kernels.codegen.llvm import INT8, WORD, data_of, declare, pointer_at
from minigrad.kernels.jit import intrinsic, overload, types
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
            _fetch(x, index)  # type: ignore[call-arg]

    return lines


def emit_prefetch(builder: Any, place: Any) -> None:
    """Ask for the cache line at `place`, a pointer to a byte. It is a hint: the memory need not exist."""
    function = declare(builder, "llvm.prefetch.p0i8", ir.VoidType(), [INT8.as_pointer(), WORD, WORD, WORD])
    to_read, soon_and_often, data = (ir.Constant(WORD, number) for number in (0, 3, 1))
    builder.call(function, [place, to_read, soon_and_often, data])


@intrinsic
def _fetch(typing_context, x, index):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line = pointer_at(builder, data_of(context, builder, signature.args[0], arguments[0]), arguments[1], INT8)
        emit_prefetch(builder, line)
        return context.get_dummy_value()

    return types.void(x, index), generate
