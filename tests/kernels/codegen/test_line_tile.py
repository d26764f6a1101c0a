"""A text has the same bits alone as among others, and a line in any of the four places, in every format."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.codegen.line_products import Lines
from minigrad.kernels.codegen.line_tile import BFLOAT16, FLOAT16, FULL, GROUP, INT4, INT8, LINES, TEXTS
from minigrad.kernels.codegen.vector_moves import SIDE
from tests.kernels.codegen.test_line_products import RNG, SOURCE, compiled, results, stored


@pytest.mark.parametrize("kind", [FULL, FLOAT16, BFLOAT16, INT8, INT4])
def test_bits_do_not_depend_on_company(kind: int) -> None:
    inputs, outputs = 90, 6
    weights = stored(kind, inputs, outputs, np.float32)
    memory = RNG.normal(size=(TEXTS + 3, SOURCE + inputs)).astype(np.float32)
    scales = RNG.random(-(-inputs // GROUP) * LINES).astype(np.float32)
    lines = Lines(kind, address_of(weights), inputs, outputs)
    together = results(compiled, lines, memory, scales)
    alone = [results(compiled, lines, memory[text : text + 1], scales) for text in range(len(memory))]
    np.testing.assert_array_equal(np.concatenate(alone), together)


def test_equal_lines_have_equal_bits_in_every_place() -> None:
    line = RNG.normal(size=(1, 77)).astype(np.float32)
    weights, memory = np.repeat(line, LINES, axis=0), RNG.normal(size=(TEXTS, SOURCE + 77)).astype(np.float32)
    found = results(compiled, Lines(FULL, address_of(weights), 77, LINES), memory, np.zeros(3 * LINES, np.float32))
    assert (found == found[:, :1]).all()


def test_sums_a_line_and_the_vectors_of_all_texts_fit_into_registers() -> None:
    """AVX-512 and NEON have 32; where there are fewer, x86 reads one factor of a product from memory."""
    assert LINES * TEXTS + (1 + TEXTS) * GROUP // SIDE <= 32
