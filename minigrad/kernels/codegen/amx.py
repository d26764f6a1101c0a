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

from minigrad.kernels.codegen.llvm import BYTE, BlockOperands, counting, declare, int64
from minigrad.kernels.cpu import BFLOAT16, Block
from minigrad.kernels.jit import emits, types
from minigrad.typing import Array

TILE_CONFIGURATION = np.zeros(64, np.uint8)
"""The configuration of the tile registers: palette 1; each register has 16 rows of 64 bytes."""
TILE_CONFIGURATION[0], TILE_CONFIGURATION[16:32:2], TILE_CONFIGURATION[48:56] = 1, 64, 16
PRODUCTS = {1: [(0, 0)], 3: [(1, 1), (1, 0), (2, 0), (0, 0), (0, 1), (0, 2)]}
"""For each number of parts, which parts of the factors are multiplied; each product loads only one new part."""


def configure_tiles(configuration: Array) -> None:
    """Configure the tile registers of this thread, if there are any, before the first product."""


def release_tiles() -> None:
    """Release the tile registers after the last product."""


@emits(configure_tiles, types.void, None)
def _emit_configuration(builder: Any, configuration: Any) -> None:
    if BFLOAT16 is not None and BFLOAT16.kind == "tiles":
        _tile_instruction(builder, "ldtilecfg", builder.bitcast(configuration.data, BYTE.as_pointer()))


@emits(release_tiles, types.void)
def _emit_release(builder: Any) -> None:
    if BFLOAT16 is not None and BFLOAT16.kind == "tiles":
        _tile_instruction(builder, "tilerelease")


def _tile_instruction(builder: Any, name: str, *arguments: Any) -> None:
    kinds = [argument.type for argument in arguments]
    builder.call(declare(builder, f"llvm.x86.{name}", ir.VoidType(), kinds), arguments)


def emit_tiles(block: Block, builder: Any, operands: BlockOperands) -> None:
    """Emit the loop: registers 0 to 3 hold the sums of 2 x 2 tiles, 4 and 5 the left factor, 6 and 7 the right one."""
    bytes_pointer = BYTE.as_pointer()
    left, right = block.chunk * 4, block.columns * 4  # bytes from one row of a tile to the next
    below = builder.mul(operands.stride, int64(16))
    stride = builder.mul(operands.stride, int64(4))
    offsets = (int64(0), int64(16), below, builder.add(below, int64(16)))
    corners = [builder.bitcast(builder.gep(operands.result, [offset]), bytes_pointer) for offset in offsets]
    with builder.if_else(operands.add) as (adding, setting):
        with adding:
            for number, corner in enumerate(corners):
                _tile_instruction(builder, "tileloadd64", BYTE(number), corner, stride)
        with setting:
            for number in range(4):
                _tile_instruction(builder, "tilezero", BYTE(number))

    def load(tiles: tuple[int, int], pointer: Any, start: Any, offset: int, tile_stride: int, row_bytes: int) -> None:
        for number, tile in enumerate(tiles):
            words = builder.gep(pointer, [builder.add(start, int64(offset + number * tile_stride))])
            words = builder.bitcast(words, bytes_pointer)
            _tile_instruction(builder, "tileloadd64", BYTE(tile), words, int64(row_bytes))

    with counting(builder, operands.depth, block.chunk) as step:
        left_start = builder.mul(step, int64(block.rows * block.parts))
        right_start = builder.mul(step, int64(block.columns * block.parts))
        loaded = -1, -1
        for x, y in PRODUCTS[block.parts]:
            if x != loaded[0]:
                load((4, 5), operands.left, left_start, x * block.rows * block.chunk, 16 * block.chunk, left)
            if y != loaded[1]:
                load((6, 7), operands.right, right_start, y * block.columns * block.chunk, 16, right)
            loaded = x, y
            for total, one, other in ((0, 4, 6), (1, 4, 7), (2, 5, 6), (3, 5, 7)):
                _tile_instruction(builder, "tdpbf16ps", BYTE(total), BYTE(one), BYTE(other))
    for number, corner in enumerate(corners):
        _tile_instruction(builder, "tilestored64", BYTE(number), corner, stride)
