"""The loop in tile registers as it is emitted: which registers are loaded, multiplied and stored, in which order."""

from __future__ import annotations

import itertools
import re

import pytest
from llvmlite import ir

from minigrad.kernels.codegen.amx import PRODUCTS, TILE_CONFIGURATION, emit_tiles
from minigrad.kernels.codegen.llvm import INT64, WORD, BlockOperands
from minigrad.kernels.cpu import Block


def emitted(parts: int) -> str:
    """Return the LLVM text of the loop for elements of so many parts."""
    pointer = WORD.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, pointer, INT64, INT64, ir.IntType(1)])
    function = ir.Function(ir.Module(), kind, "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    emit_tiles(Block("tiles", 32, 32, 16, chunk=16, parts=parts), builder, BlockOperands(*function.args))
    builder.ret_void()
    return str(function)


def instructions(text: str, name: str) -> list[list[int]]:
    """Return the registers of each call of an instruction."""
    calls = re.findall(rf'"llvm\.x86\.{name}"\(([^)]*)\)', text)
    return [[int(number) for number in re.findall(r"i8 (\d+)", call)] for call in calls]


@pytest.mark.parametrize("parts", [1, 3])
def test_every_product_of_parts_is_added_to_the_four_sums(parts: int) -> None:
    products = instructions(emitted(parts), "tdpbf16ps")
    assert products == [[0, 4, 6], [1, 4, 7], [2, 5, 6], [3, 5, 7]] * len(PRODUCTS[parts])


@pytest.mark.parametrize("parts", [1, 3])
def test_the_sums_are_loaded_or_zeroed_and_then_stored(parts: int) -> None:
    text = emitted(parts)
    loads = [register for (register,) in instructions(text, "tileloadd64")]
    assert [register for register in loads if register < 4] == [0, 1, 2, 3]
    assert instructions(text, "tilezero") == instructions(text, "tilestored64") == [[0], [1], [2], [3]]


def test_the_six_products_that_count_need_seven_loads_of_a_part() -> None:
    """Each product needs one part that the product before it did not use; the first one needs two."""
    assert len(set(PRODUCTS[3])) == 6
    assert all(i + j <= 2 for i, j in PRODUCTS[3])  # the dropped terms are (1, 2), (2, 1) and (2, 2)
    assert all((a[0] != b[0]) + (a[1] != b[1]) == 1 for a, b in itertools.pairwise(PRODUCTS[3]))
    loads = [register for (register,) in instructions(emitted(3), "tileloadd64") if register >= 4]
    assert len(loads) == 2 * 7
    assert loads[:4] == [4, 5, 6, 7]


def test_the_configuration_gives_every_register_16_rows_of_64_bytes() -> None:
    assert TILE_CONFIGURATION.nbytes == 64
    assert TILE_CONFIGURATION[0] == 1  # the palette
    assert TILE_CONFIGURATION[16:32].view("<u2").tolist() == [64] * 8
    assert TILE_CONFIGURATION[48:56].tolist() == [16] * 8
    assert int(TILE_CONFIGURATION.astype(int).sum()) == 1 + 8 * 64 + 8 * 16
