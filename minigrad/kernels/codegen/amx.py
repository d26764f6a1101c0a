"""The innermost loop of a matrix product in the tile registers of AMX.

Eight registers hold 16 rows of 64 bytes each: four of them the sums of 2 x 2 tiles of the result, two the left factor
and two the right one. One instruction multiplies 16 x 32 by 32 x 16 bfloat16 numbers and adds the products in float32:
16,384 operations, where a multiply-add of vectors does 32. Where each number of the factors has three pieces
(`minigrad.kernels.codegen.bfloat16_parts`), the six products of pieces that count are added to the same sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.llvm import INT8, INT64, declared, whole
from minigrad.kernels.cpu import BFLOAT16, Block
from minigrad.kernels.jit import intrinsic, overload, types
from minigrad.typing import Array

TILE_SHAPES = np.zeros(64, np.uint8)
"""What the tile registers are told: palette 1; every one has 16 rows of 64 bytes."""
TILE_SHAPES[0], TILE_SHAPES[16:32:2], TILE_SHAPES[48:56] = 1, 64, 16
PRODUCTS = {1: [(0, 0)], 3: [(1, 1), (1, 0), (2, 0), (0, 0), (0, 1), (0, 2)]}
"""Which pieces of the factors are multiplied, in an order in which each step fetches only one new piece."""


def begin_blocks(shapes: Array) -> None:
    """Make this thread ready for products in tile registers, which want to know their shape."""


def end_blocks(shapes: Array) -> None:
    """Give the tile registers back."""


@overload(begin_blocks)
def _begin_blocks(shapes):  # type: ignore[no-untyped-def]
    if not _has_tiles():
        return lambda shapes: None
    return lambda shapes: _configure_tiles(shapes)  # type: ignore[call-arg]


@overload(end_blocks)
def _end_blocks(shapes):  # type: ignore[no-untyped-def]
    if not _has_tiles():
        return lambda shapes: None
    return lambda shapes: _release_tiles(shapes)  # type: ignore[call-arg]


def _has_tiles() -> bool:
    return BFLOAT16 is not None and BFLOAT16.kind == "tiles"


def _tile_instruction(builder: Any, name: str, *arguments: Any) -> None:
    function = declared(builder, f"llvm.x86.{name}", ir.VoidType(), [argument.type for argument in arguments])
    builder.call(function, arguments)


def _tile(number: int) -> Any:
    return ir.Constant(INT8, number)


def emit_tiles(block: Block, builder: Any, a: Any, b: Any, c: Any, depth: Any, stride: Any, add: Any) -> None:
    """The loop in tile registers: 0 to 3 hold the sums of 2 x 2 tiles, 4 and 5 the left factor, 6 and 7 the right."""
    bytes_pointer = INT8.as_pointer()
    left, right = block.chunk * 4, block.columns * 4  # bytes from one row of a tile to the next
    below = builder.mul(stride, whole(16))
    c_stride = builder.mul(stride, whole(4))
    corners = [
        builder.bitcast(builder.gep(c, [offset]), bytes_pointer)
        for offset in (whole(0), whole(16), below, builder.add(below, whole(16)))
    ]
    with builder.if_else(add) as (adding, setting):
        with adding:
            for number, corner in enumerate(corners):
                _tile_instruction(builder, "tileloadd64", _tile(number), corner, c_stride)
        with setting:
            for number in range(4):
                _tile_instruction(builder, "tilezero", _tile(number))
    before, loop, after = builder.block, builder.append_basic_block("sum"), builder.append_basic_block("summed")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(INT64)
    a_place = builder.mul(step, whole(block.rows * block.pieces))
    b_place = builder.mul(step, whole(block.columns * block.pieces))

    def fetch(tiles: tuple[int, int], pointer: Any, place: Any, beyond: int, apart: int, width: int) -> None:
        for number, tile in enumerate(tiles):
            words = builder.gep(pointer, [builder.add(place, whole(beyond + number * apart))])
            _tile_instruction(builder, "tileloadd64", _tile(tile), builder.bitcast(words, bytes_pointer), whole(width))

    held: tuple[int, int] | tuple[None, None] = (None, None)
    for x, y in PRODUCTS[block.pieces]:
        if x != held[0]:
            fetch((4, 5), a, a_place, x * block.rows * block.chunk, 16 * block.chunk, left)
        if y != held[1]:
            fetch((6, 7), b, b_place, y * block.columns * block.chunk, 16, right)
        held = x, y
        for total, one, other in ((0, 4, 6), (1, 4, 7), (2, 5, 6), (3, 5, 7)):
            _tile_instruction(builder, "tdpbf16ps", _tile(total), _tile(one), _tile(other))
    following = builder.add(step, whole(block.chunk))
    step.add_incoming(whole(0), before)
    step.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
    builder.position_at_end(after)
    for number, corner in enumerate(corners):
        _tile_instruction(builder, "tilestored64", _tile(number), corner, c_stride)


@intrinsic
def _configure_tiles(typing_context, shapes):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        _tile_instruction(builder, "ldtilecfg", builder.bitcast(data, INT8.as_pointer()))
        return context.get_dummy_value()

    return types.void(shapes), generate


@intrinsic
def _release_tiles(typing_context, shapes):  # type: ignore[no-untyped-def]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _tile_instruction(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(shapes), generate
