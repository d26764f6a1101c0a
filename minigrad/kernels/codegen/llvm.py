"""LLVM types and values that the emitted loops share."""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

INT8, SHORT, WORD, INT64 = (ir.IntType(size) for size in (8, 16, 32, 64))
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


def repeated(kind: Any, number: float) -> Any:
    """Return a vector constant, all of whose lanes hold a number."""
    return ir.Constant(kind, [number] * kind.count)


def pointer_at(builder: Any, pointer: Any, index: Any, kind: Any) -> Any:
    """Return a pointer to a `kind` at pointer[index]."""
    return builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer())


def data_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return the pointer to the first element of an array of the Numba type `kind`."""
    return context.make_array(kind)(context, builder, array).data


def declare(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Return the function (or the processor's instruction) of this name, declared once per module."""
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(result, arguments), name)
