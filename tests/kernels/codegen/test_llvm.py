"""Values that the emitted loops share, in the text of a module."""

from __future__ import annotations

from llvmlite import ir

from minigrad.kernels.codegen.llvm import FLOAT, INT64, WORD, declare, int64, pointer_at


def _builder() -> ir.IRBuilder:
    kind = ir.FunctionType(ir.VoidType(), [WORD.as_pointer(), INT64])
    return ir.IRBuilder(ir.Function(ir.Module(), kind, "f").append_basic_block())


def test_a_function_is_declared_once_per_module() -> None:
    builder = _builder()
    first, again = (declare(builder, "llvm.fma.f32", FLOAT, [FLOAT] * 3) for _ in range(2))
    assert first is again
    assert str(builder.module).count("declare float") == 1


def test_a_pointer_is_moved_by_elements_and_then_takes_the_new_type() -> None:
    builder = _builder()
    pointer = pointer_at(builder, builder.function.args[0], int64(3), ir.VectorType(FLOAT, 4))
    assert pointer.type == ir.VectorType(FLOAT, 4).as_pointer()
    moved, cast = str(builder.block).splitlines()[1:3]
    assert "getelementptr i32" in moved
    assert "i64 3" in moved
    assert "bitcast" in cast
