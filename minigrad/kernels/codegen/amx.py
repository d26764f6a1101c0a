"""The innermost loop of a matrix product in the tile registers of AMX.

Eight registers hold 16 rows of 64 bytes each: four of them the sums of 2 x 2 tiles of the result, two the left factor
and two the right one. One instruction multiplies 16 x 32 by 32 x 16 bfloat16 elements and adds the products in float32:
16,384 FLOPs, where a multiply-add of vectors does 32. Where each element of the factors is split into three parts
(`minigrad.kernels.codegen.bfloat16_pairs`), the six products of parts that count are added to the same sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.llvm import INT8, INT64, BlockOperands, data_of, declare, int64
from minigrad.kernels.cpu import BFLOAT16, Block
from minigrad.kernels.jit import intrinsic, overload, types
from minigrad.typing import Array

TILE_CONFIGURATION = np.zeros(64, np.uint8)
"""The configuration of the tile registers: palette 1; each register has 16 rows of 64 bytes."""
TILE_CONFIGURATION[0], TILE_CONFIGURATION[16:32:2], TILE_CONFIGURATION[48:56] = 1, 64, 16
PRODUCTS = {1: [(0, 0)], 3: [(1, 1), (1, 0), (2, 0), (0, 0), (0, 1), (0, 2)]}
"""For each number of parts, which parts of the factors are multiplied; each product loads only one new part."""


def configure_tiles(configuration: Array) -> None:
    """Configure the tile registers of this thread, if there are any, before the first product."""


def release_tiles(configuration: Array) -> None:
    """Release the tile registers after the last product."""


@overload(configure_tiles)
def _configure_tiles(configuration):  # type: ignore[no-untyped-def]
    if not _has_tiles():
        return lambda configuration: None
    return lambda configuration: _load_configuration(configuration)  # type: ignore[call-arg]


@overload(release_tiles)
def _release_tiles(configuration):  # type: ignore[no-untyped-def]
    if not _has_tiles():
        return lambda configuration: None
    return lambda configuration: _release(configuration)  # type: ignore[call-arg]


def _has_tiles() -> bool:
    return BFLOAT16 is not None and BFLOAT16.kind == "tiles"


def _tile_instruction(builder: Any, name: str, *arguments: Any) -> None:
    function = declare(builder, f"llvm.x86.{name}", ir.VoidType(), [argument.type for argument in arguments])
    builder.call(function, arguments)


def _tile(number: int) -> Any:
    return ir.Constant(INT8, number)


def emit_tiles(block: Block, builder: Any, operands: BlockOperands) -> None:
    """Emit the loop: registers 0 to 3 hold the sums of 2 x 2 tiles, 4 and 5 the left factor, 6 and 7 the right one."""
    bytes_pointer = INT8.as_pointer()
    left, right = block.chunk * 4, block.columns * 4  # bytes from one row of a tile to the next
    below = builder.mul(operands.stride, int64(16))
    stride = builder.mul(operands.stride, int64(4))
    corners = [
        builder.bitcast(builder.gep(operands.result, [offset]), bytes_pointer)
        for offset in (int64(0), int64(16), below, builder.add(below, int64(16)))
    ]
    with builder.if_else(operands.add) as (adding, setting):
        with adding:
            for number, corner in enumerate(corners):
                _tile_instruction(builder, "tileloadd64", _tile(number), corner, stride)
        with setting:
            for number in range(4):
                _tile_instruction(builder, "tilezero", _tile(number))
    before, loop, after = builder.block, builder.append_basic_block("sum"), builder.append_basic_block("summed")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(INT64)
    left_start = builder.mul(step, int64(block.rows * block.parts))
    right_start = builder.mul(step, int64(block.columns * block.parts))

    def load(tiles: tuple[int, int], pointer: Any, start: Any, offset: int, tile_stride: int, row_bytes: int) -> None:
        for number, tile in enumerate(tiles):
            words = builder.gep(pointer, [builder.add(start, int64(offset + number * tile_stride))])
            words = builder.bitcast(words, bytes_pointer)
            _tile_instruction(builder, "tileloadd64", _tile(tile), words, int64(row_bytes))

    loaded: tuple[int, int] | tuple[None, None] = (None, None)
    for x, y in PRODUCTS[block.parts]:
        if x != loaded[0]:
            load((4, 5), operands.left, left_start, x * block.rows * block.chunk, 16 * block.chunk, left)
        if y != loaded[1]:
            load((6, 7), operands.right, right_start, y * block.columns * block.chunk, 16, right)
        loaded = x, y
        for total, one, other in ((0, 4, 6), (1, 4, 7), (2, 5, 6), (3, 5, 7)):
            _tile_instruction(builder, "tdpbf16ps", _tile(total), _tile(one), _tile(other))
    following = builder.add(step, int64(block.chunk))
    step.add_incoming(int64(0), before)
    step.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, operands.depth), loop, after)
    builder.position_at_end(after)
    for number, corner in enumerate(corners):
        _tile_instruction(builder, "tilestored64", _tile(number), corner, stride)


@intrinsic
def _load_configuration(typing_context, configuration):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = data_of(context, builder, signature.args[0], arguments[0])
        _tile_instruction(builder, "ldtilecfg", builder.bitcast(data, INT8.as_pointer()))
        return context.get_dummy_value()

    return types.void(configuration), generate


@intrinsic
def _release(typing_context, configuration):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _tile_instruction(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(configuration), generate
