"""Packed panels: one order of words, however the matrix lies in memory."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from minigrad.kernels.codegen.vector_moves import LEFT, RIGHT, SIDE
from minigrad.kernels.gemm.packing import Factor, PanelLayout, Section, pack_panels, pack_scratch, transposable_steps
from tests.kernels.gemm.packing_twins import matrix_of, panels

Array = NDArray[Any]
SPARE = 3 * SIDE * SIDE  # packing may write behind the last panel


def packed(x: Array, transposed: bool, layout: PanelLayout, section: Section) -> Array:
    size = (section.last - section.first) * section.words * layout.lanes * max(layout.parts, 1)
    memory = np.full(size + SPARE, 7, np.uint32)
    pack_panels(Factor(matrix_of(x, transposed), layout), section, memory, pack_scratch(x.reshape(-1)))
    return memory[:size]


def test_a_panel_of_float32_is_the_transpose_of_its_rows() -> None:
    x = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
    found = packed(x, False, PanelLayout(2, 1, 0), Section(1, 3, 0, 3)).view(np.float32)
    np.testing.assert_array_equal(found.reshape(2, 3, 2), [[[7, 10], [8, 11], [9, 12]], [[13, 0], [14, 0], [15, 0]]])


@pytest.mark.parametrize("lanes", [1, SIDE - 1 or 1, SIDE, SIDE + 1, SIDE + SIDE // 2 + 1, 2 * SIDE, 2 * SIDE + 3])
def test_what_a_step_writes_beyond_its_panel_is_overwritten(lanes: int) -> None:
    x = np.random.default_rng(0).normal(size=(4 * SIDE + 1, 2 * SIDE + 3)).astype(np.float32)
    section = Section(0, -(-len(x) // lanes), 0, x.shape[1])
    found = packed(x, False, PanelLayout(lanes, 1, 0), section)
    np.testing.assert_array_equal(found.view(np.float32), panels(x, lanes).reshape(-1))


@pytest.mark.parametrize(
    "layout", [PanelLayout(LEFT, 1, 0), PanelLayout(RIGHT, 1, 0), PanelLayout(32, 1, 3), PanelLayout(32, SIDE, 3)]
)
def test_a_transposed_matrix_is_packed_to_the_same_words(layout: PanelLayout) -> None:
    x = np.random.default_rng(0).normal(size=(70, 3 * SIDE + 5)).astype(np.float32)
    steps = x.shape[1] if layout.parts == 0 else 2 * SIDE
    section = Section(0, -(-len(x) // layout.lanes), 0, steps)
    assert packed(x, False, layout, section).tobytes() == packed(x, True, layout, section).tobytes()


@pytest.mark.parametrize("parts", [0, 1])
def test_a_section_is_a_part_of_the_whole(parts: int) -> None:
    x = np.random.default_rng(1).normal(size=(3 * 32, 8 * SIDE)).astype(np.float32)
    layout, words = PanelLayout(32, 1, parts), 4 * SIDE
    every = packed(x, False, layout, Section(0, 3, 0, words)).reshape(3, words, 32)
    part = packed(x, False, layout, Section(1, 3, SIDE, 2 * SIDE)).reshape(2, 2 * SIDE, 32)
    np.testing.assert_array_equal(part, every[1:, SIDE : 3 * SIDE])


def test_blocks_are_transposed_only_where_their_excess_has_memory() -> None:
    lanes = SIDE - 1 if SIDE > 1 else 1  # each step overruns into the next one
    steps = 2 * SIDE
    assert transposable_steps(steps, lanes, steps * lanes + SIDE) == steps
    assert transposable_steps(steps, lanes, steps * lanes) == steps - SIDE
    assert transposable_steps(steps, SIDE, steps * SIDE) == steps
    assert transposable_steps(SIDE - 1, lanes, 10**6) == 0


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_one_compiled_kernel_packs_every_layout() -> None:
    x = np.ones((40, 2 * SIDE), np.float32)
    for layout in (PanelLayout(12, 1, 0), PanelLayout(32, 1, 1), PanelLayout(32, SIDE, 3)):
        for transposed in (False, True):
            packed(x, transposed, layout, Section(0, 1, 0, SIDE))
    kernel: Any = pack_panels
    assert len(kernel.signatures) == 1
