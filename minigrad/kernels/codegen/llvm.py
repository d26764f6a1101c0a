"""LLVM types and values that the emitted loops share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from llvmlite import ir

BYTE, SHORT, WORD, INT64 = (ir.IntType(size) for size in (8, 16, 32, 64))
HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()


class BlockOperands(NamedTuple):
    """The LLVM values that an emitted product of two panels works on."""

    left: Any  # pointer to the first word of the left panel
    right: Any  # pointer to the first word of the right panel
    result: Any  # pointer to the first element of the block of the result
    depth: Any  # words of each row and column of the panels
    stride: Any  # elements from one row of the result to the next
    add: Any  # one bit: whether the product is added to the result


def int64(number: int) -> Any:
    """Return an integer constant of 64 bits."""
    return ir.Constant(INT64, number)


def at_most(builder: Any, number: Any, limit: Any) -> Any:
    """Return the smaller one of two signed integers."""
    return builder.select(builder.icmp_signed("<", number, limit), number, limit)


def repeated(kind: Any, number: float) -> Any:
    """Return a vector constant, all of whose lanes hold a number."""
    return ir.Constant(kind, [number] * kind.count)


def in_all_lanes(builder: Any, kind: Any, value: Any) -> Any:
    """Return a vector, all of whose lanes hold a value."""
    empty, lanes = ir.Constant(kind, ir.Undefined), repeated(ir.VectorType(WORD, kind.count), 0)
    return builder.shuffle_vector(builder.insert_element(empty, value, ir.Constant(WORD, 0)), empty, lanes)


def pointer_at(builder: Any, pointer: Any, index: Any, kind: Any) -> Any:
    """Return a pointer to a `kind` at pointer[index]."""
    return builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer())


def declare(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Return the function (or the processor's instruction) of this name, declared once per module."""
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


@contextlib.contextmanager
def counting(builder: Any, stop: Any, step: int = 1) -> Iterator[Any]:
    """Emit what is emitted inside the block as the body of a loop, which runs at least once; yield its counter, from 0
    to below `stop` in steps.
    """
    before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.branch(loop)
    builder.position_at_end(loop)
    number = builder.phi(INT64)
    yield number
    following = builder.add(number, int64(step))
    number.add_incoming(int64(0), before)
    number.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, stop), loop, after)
    builder.position_at_end(after)
