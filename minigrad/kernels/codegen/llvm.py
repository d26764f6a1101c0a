"""The few words of LLVM that the loops written in it share."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

INT8, WORD, INT64, FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()


def whole(number: int) -> Any:
    """Return a constant whole number of 64 bits."""
    return ir.Constant(INT64, number)


def at(builder: Any, pointer: Any, index: Any, kind: Any) -> Any:
    """Return a pointer to a `kind` at pointer[index]."""
    return builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer())


def declared(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Return the function (an instruction of the processor has a name as well) of this name, declared once a module."""
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(result, arguments), name)
