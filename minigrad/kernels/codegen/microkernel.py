"""The innermost loop of a matrix product, written for the processor's registers.

The compiler does not find this loop by itself: it must be told that a block of the result stays in registers while the
sum runs. So the loop is written as LLVM instructions, and Numba compiles them into the place where it is called. Each
step of the sum loads one row of the right factor and, number by number, one column of the left; with 12 x 32 sums that
is 24 multiply-adds of 16 numbers for two registers loaded.

Both factors are packed (see `minigrad.kernels.gemm.packing`), so each load follows the one before it in memory:

* left panel: [depth / chunk][rows][chunk] words; right panel: [depth][columns] words;
* a word is a float32, or two bfloat16 that follow each other in the sum, the first in the lower half;
* where each number has three pieces, every 16 words of depth there are three such panels, one for each piece.

`multiply_block` is plain Python for NUMBA_DISABLE_JIT=1; compiled, `_emit_vectors` or `emit_tiles` takes its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen.amx import PRODUCTS, emit_tiles
from minigrad.kernels.codegen.llvm import FLOAT, INT64, WORD, at, declared, whole
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SMALL, SPLIT, Block
from minigrad.kernels.jit import intrinsic, overload, types
from minigrad.typing import Array


def multiply_block(
    a: Array,
    a_start: int,
    b: Array,
    b_start: int,
    depth: int,
    pieces: int,
    c: Array,
    c_start: int,
    stride: int,
    add: bool,
) -> None:
    """Set a block of c to the product of a left and a right panel, or with `add` add it; all arrays are flat.

    The words of the panels (uint32) are what `pieces` says: 0 is for the block of float32, 1 for that of bfloat16, 3
    for float32 in three pieces. Row i of the result begins at ``c[c_start + i * stride]``; `depth` (words) is at least
    1 and a multiple of the chunk.
    """
    block = {0: FLOAT32, 1: BFLOAT16, 3: SPLIT}[pieces]
    assert block is not None
    rows, columns, chunk, group = block.rows, block.columns, block.chunk, SIDE if pieces > 1 else depth
    count = max(pieces, 1)
    left = a[a_start : a_start + depth * count * rows].reshape(-1, count, group // chunk, rows, chunk)
    right = b[b_start : b_start + depth * count * columns].reshape(-1, count, group, columns)
    total = np.zeros((rows, columns), np.float32)
    for x, y in PRODUCTS[count]:
        one, other = left[:, x].swapaxes(2, 3).reshape(depth, rows), right[:, y].reshape(depth, columns)
        total += _halves_product(one, other) if pieces else one.view(np.float32).T @ other.view(np.float32)
    for i, row in enumerate(total):
        place = slice(c_start + i * stride, c_start + i * stride + columns)
        c[place] = c[place] + row if add else row


def _halves_product(left: Array, right: Array) -> Any:
    lower = [(np.ascontiguousarray(word) << np.uint32(16)).view(np.float32) for word in (left, right)]
    upper = [(np.ascontiguousarray(word) & np.uint32(0xFFFF0000)).view(np.float32) for word in (left, right)]
    return lower[0].T @ lower[1] + upper[0].T @ upper[1]


@overload(multiply_block)
def _multiply_block(a, a_start, b, b_start, depth, pieces, c, c_start, stride, add):  # type: ignore[no-untyped-def]
    if BFLOAT16 is None:
        return lambda a, a_start, b, b_start, depth, pieces, c, c_start, stride, add: _float32_block(
            a, a_start, b, b_start, depth, c, c_start, stride, add
        )
    with_split = SPLIT is not None

    def multiply(a, a_start, b, b_start, depth, pieces, c, c_start, stride, add):  # type: ignore[no-untyped-def]
        if pieces == 0:
            _float32_block(a, a_start, b, b_start, depth, c, c_start, stride, add)
        elif pieces == 1 or not with_split:
            _bfloat16_block(a, a_start, b, b_start, depth, c, c_start, stride, add)
        else:
            _split_block(a, a_start, b, b_start, depth, c, c_start, stride, add)

    return multiply


def _intrinsic_for(block: Block | None) -> Any:
    @intrinsic
    def multiply(typing_context, a, a_start, b, b_start, depth, c, c_start, stride, add):  # type: ignore[no-untyped-def]
        assert block is not None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds = signature.args
            pointers = [
                builder.gep(context.make_array(kinds[i])(context, builder, arguments[i]).data, [arguments[i + 1]])
                for i in (0, 2, 5)
            ]
            emit = emit_tiles if block.kind == "tiles" else _emit_vectors
            depth, stride, add = arguments[4], arguments[7], arguments[8]
            emit(block, builder, pointers[0], pointers[1], pointers[2], depth, stride, add)
            return context.get_dummy_value()

        whole = types.int64
        return types.void(a, whole, b, whole, whole, c, whole, whole, types.boolean), generate

    return multiply


_float32_block, _bfloat16_block, _split_block = (_intrinsic_for(block) for block in (FLOAT32, BFLOAT16, SPLIT))
small_block = _intrinsic_for(SMALL if FLOAT32 is not None else None)
"""One block of the products of small matrices, without telling which: the same arguments but `pieces`."""


def _emit_vectors(block: Block, builder: Any, a: Any, b: Any, c: Any, depth: Any, stride: Any, add: Any) -> None:
    """The loop in vector registers: one multiply-add per row of the block and register of its columns."""
    lanes, parts, paired = block.lanes, block.columns // block.lanes, block.kind == "bfloat16"
    sums_kind, word = ir.VectorType(FLOAT, lanes), WORD if paired else FLOAT
    words_kind = ir.VectorType(word, lanes)
    a = builder.bitcast(a, word.as_pointer())
    if paired:
        halves = ir.VectorType(_BFloat(), 2 * lanes)
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        instruction = declared(builder, name, sums_kind, [sums_kind, halves, halves])
    else:
        instruction = declared(builder, f"llvm.fma.v{lanes}f32", sums_kind, [sums_kind] * 3)

    def multiply_add(x: Any, y: Any, total: Any) -> Any:
        if paired:
            return builder.call(instruction, [total, builder.bitcast(x, halves), builder.bitcast(y, halves)])
        return builder.call(instruction, [x, y, total])

    before, loop, after = builder.block, builder.append_basic_block("sum"), builder.append_basic_block("summed")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(INT64)
    sums = [builder.phi(sums_kind) for _ in range(block.rows * parts)]
    row = builder.mul(step, whole(block.columns))
    right = [
        builder.load(at(builder, b, builder.add(row, whole(part * lanes)), words_kind), align=4)
        for part in range(parts)
    ]
    column = builder.mul(step, whole(block.rows))
    nothing, first_lane = ir.Constant(words_kind, ir.Undefined), ir.Constant(ir.VectorType(WORD, lanes), [0] * lanes)
    results = []
    for i in range(block.rows):
        number = builder.load(builder.gep(a, [builder.add(column, whole(i))]))
        one = builder.insert_element(nothing, number, ir.Constant(WORD, 0))
        spread = builder.shuffle_vector(one, nothing, first_lane)
        results += [multiply_add(spread, right[part], sums[i * parts + part]) for part in range(parts)]
    following = builder.add(step, whole(1))
    step.add_incoming(whole(0), before)
    step.add_incoming(following, loop)
    for total, result in zip(sums, results, strict=True):
        total.add_incoming(ir.Constant(sums_kind, [0.0] * lanes), before)
        total.add_incoming(result, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
    builder.position_at_end(after)
    places = [
        at(builder, c, builder.add(builder.mul(stride, whole(i)), whole(part * lanes)), sums_kind)
        for i in range(block.rows)
        for part in range(parts)
    ]
    with builder.if_else(add) as (adding, setting):
        with adding:
            for place, result in zip(places, results, strict=True):
                builder.store(builder.fadd(builder.load(place, align=4), result), place, align=4)
        with setting:
            for place, result in zip(places, results, strict=True):
                builder.store(result, place, align=4)


class _BFloat(ir.FloatType):  # type: ignore[misc]
    """bfloat16 as LLVM writes it, which llvmlite has no name for."""

    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"


_BFloat._create_instance()  # else there would be but one float for both
