"""The innermost loop of a matrix product, written for the processor's registers.

The compiler does not find this loop by itself: a block of the result must stay in registers while the sum runs. So the
loop is emitted as LLVM instructions, and Numba compiles them into the place where it is called. Each step of the sum
loads one row of the right factor and, element by element, one column of the left; with 12 x 32 sums that is 24
multiply-adds of 16 elements for two registers loaded.

Both factors are packed (see `minigrad.kernels.gemm.packing`), so each load follows the one before it in memory:

* left panel: [depth / chunk][rows][chunk] words; right panel: [depth][columns] words;
* where each element is split into three parts, every 16 words of depth there are three such panels, one for each part.

`multiply_block` is plain Python for NUMBA_DISABLE_JIT=1; compiled, `_emit_vectors` or `emit_tiles` takes its place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from minigrad.kernels.codegen import llvm
from minigrad.kernels.codegen.amx import PRODUCTS, emit_tiles
from minigrad.kernels.codegen.llvm import FLOAT, WORD, BlockOperands, declare, int64, pointer_at
from minigrad.kernels.codegen.vector_moves import SIDE
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SMALL, SMALL_BFLOAT16, SMALL_VECTORS, SPLIT, Block
from minigrad.kernels.jit import emits, overload, types
from minigrad.typing import Array


class Panel(NamedTuple):
    """A packed part of a factor; it begins at elements[start]."""

    elements: Array  # flat; words (uint32), or in attention the elements themselves
    start: int


class Target(NamedTuple):
    """Where a block of the result is written: row i begins at elements[start + i * stride]."""

    elements: Array  # flat, float32
    start: int
    stride: int


def multiply_block(left: Panel, right: Panel, depth: int, parts: int, target: Target, add: bool) -> None:
    """Set a block of the result to the product of a left and a right panel, or, with `add`, add the product to it.

    `parts` names the block: 0 is that of float32, 1 that of bfloat16, 3 that of float32 in three parts. `depth` (words)
    is at least 1 and a multiple of the chunk.
    """
    block = {0: FLOAT32, 1: BFLOAT16, 3: SPLIT}[parts]
    assert block is not None
    multiply_plainly(block, left, right, depth, target, add)


def multiply_plainly(block: Block, left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
    """Do what `multiply_block` does, for any block, in plain Python."""
    parts = block.parts
    rows, columns, chunk, group = block.rows, block.columns, block.chunk, SIDE if parts > 1 else depth
    count = max(parts, 1)
    a = left.elements[left.start : left.start + depth * count * rows].reshape(-1, count, group // chunk, rows, chunk)
    b = right.elements[right.start : right.start + depth * count * columns].reshape(-1, count, group, columns)
    total = np.zeros((rows, columns), np.float32)
    for x, y in PRODUCTS[count]:
        one, other = a[:, x].swapaxes(2, 3).reshape(depth, rows), b[:, y].reshape(depth, columns)
        total += _product_of_pairs(one, other) if parts else one.view(np.float32).T @ other.view(np.float32)
    for i, row in enumerate(total):
        start = target.start + i * target.stride
        place = slice(start, start + columns)
        target.elements[place] = target.elements[place] + row if add else row


def _product_of_pairs(left: Array, right: Array) -> Any:
    lower = [(np.ascontiguousarray(words) << np.uint32(16)).view(np.float32) for words in (left, right)]
    upper = [(np.ascontiguousarray(words) & np.uint32(0xFFFF0000)).view(np.float32) for words in (left, right)]
    pairs = [_without_subnormals(a).T @ _without_subnormals(b) for a, b in (lower, upper)]
    return _without_subnormals(pairs[0] + pairs[1])


def _without_subnormals(x: Array) -> Array:
    """Return x with 0 for numbers below 2^-126, as the instructions for bfloat16 read their operands and write sums."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)


@overload(multiply_block)
def _multiply_block(left, right, depth, parts, target, add):  # type: ignore[no-untyped-def]
    if BFLOAT16 is None:
        return lambda left, right, depth, parts, target, add: _float32_block(left, right, depth, target, add)
    with_split = SPLIT is not None

    def multiply(left, right, depth, parts, target, add):  # type: ignore[no-untyped-def]
        if parts == 0:
            _float32_block(left, right, depth, target, add)
        elif parts == 1 or not with_split:
            _bfloat16_block(left, right, depth, target, add)
        else:
            split_block(left, right, depth, target, add)

    return multiply


def _multiplier(block: Block | None, left_rows: int | None = None) -> Any:
    """Return the product of a block; its rows are the first of the `left_rows` of a left panel, by default all."""

    def multiply(left: Panel, right: Panel, depth: int, target: Target, add: bool) -> None:
        """Do what `multiply_block` does; only kernels call this."""

    @emits(multiply, types.void, None, None, types.int64, None, types.boolean)
    def _emit(builder: Any, left: Panel, right: Panel, depth: Any, target: Target, add: Any) -> None:
        assert block is not None
        a, b, result = (builder.gep(each.elements.data, [each.start]) for each in (left, right, target))
        operands = BlockOperands(a, b, result, depth, target.stride, add)
        if block.kind == "tiles":
            emit_tiles(block, builder, operands)
        else:
            _emit_vectors(block, left_rows or block.rows, builder, operands)

    return multiply


_float32_block, _bfloat16_block, split_block = (_multiplier(block) for block in (FLOAT32, BFLOAT16, SPLIT))
small_block = _multiplier(SMALL_VECTORS if FLOAT32 is not None else None, SMALL.rows)
small_bfloat16_block = _multiplier(SMALL_BFLOAT16)
"""One block of a product of small matrices, of elements, of words in three parts or in one (bfloat16): the arguments of
`multiply_block` without `parts`. A block of elements is as high as SMALL_VECTORS, a part of a left panel of SMALL.rows
rows."""


def _emit_vectors(block: Block, left_rows: int, builder: Any, operands: BlockOperands) -> None:
    """Emit the loop in vector registers: one multiply-add per row of the block and register of its columns."""
    lanes, registers, paired = block.lanes, block.columns // block.lanes, block.kind == "bfloat16"
    sums_kind, word = ir.VectorType(FLOAT, lanes), WORD if paired else FLOAT
    words_kind = ir.VectorType(word, lanes)
    left = builder.bitcast(operands.left, word.as_pointer())
    if paired:
        halves = ir.VectorType(_BFloat(), 2 * lanes)
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        instruction = declare(builder, name, sums_kind, [sums_kind, halves, halves])
    else:
        instruction = declare(builder, f"llvm.fma.v{lanes}f32", sums_kind, [sums_kind] * 3)

    def multiply_add(x: Any, y: Any, total: Any) -> Any:
        if paired:
            return builder.call(instruction, [total, builder.bitcast(x, halves), builder.bitcast(y, halves)])
        return builder.call(instruction, [x, y, total])

    before, zeros = builder.block, llvm.repeated(sums_kind, 0.0)
    with llvm.counting(builder, operands.depth) as step:
        sums = [builder.phi(sums_kind) for _ in range(block.rows * registers)]
        row, column = builder.mul(step, int64(block.columns)), builder.mul(step, int64(left_rows))
        starts = [builder.add(row, int64(j * lanes)) for j in range(registers)]
        right = [builder.load(pointer_at(builder, operands.right, each, words_kind), align=4) for each in starts]
        results = []
        for i in range(block.rows):
            element = builder.load(builder.gep(left, [builder.add(column, int64(i))]))
            one = llvm.in_all_lanes(builder, words_kind, element)
            results += [multiply_add(one, right[j], sums[i * registers + j]) for j in range(registers)]
        for total, result in zip(sums, results, strict=True):
            total.add_incoming(zeros, before)
            total.add_incoming(result, builder.block)
    places = []
    for i in range(block.rows):
        start = builder.mul(operands.stride, int64(i))
        offsets = [builder.add(start, int64(j * lanes)) for j in range(registers)]
        places += [pointer_at(builder, operands.result, offset, sums_kind) for offset in offsets]
    with builder.if_else(operands.add) as (adding, setting):
        for each, adds in ((adding, True), (setting, False)):
            with each:
                for place, result in zip(places, results, strict=True):
                    total = builder.fadd(builder.load(place, align=4), result) if adds else result
                    builder.store(total, place, align=4)


class _BFloat(ir.FloatType):  # type: ignore[misc]
    """LLVM's type bfloat, which llvmlite does not have."""

    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"


_BFloat._create_instance()  # otherwise both types would share the one instance of FloatType
