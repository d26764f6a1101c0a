"""Products of a matrix with one vector of each text."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.decoding.products import linear, part_of
from minigrad.kernels.decoding.program import LINEAR, Share, Step


@pytest.mark.parametrize("size", [0, 1, 15, 16, 100, 1_000])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_shares_of_all_threads_cover_every_element_once(size: int, threads: int) -> None:
    spans = [part_of(size, Share(number, threads)) for number in range(threads)]
    assert [place for start, stop in spans for place in range(start, stop)] == list(range(size))
    assert all(start % 16 == 0 or start == size for start, _ in spans)


def test_a_text_has_the_same_bits_alone_in_a_batch_and_with_any_number_of_threads() -> None:
    rng, inputs, outputs = np.random.default_rng(0), 300, 70
    weight = rng.normal(size=(outputs, inputs)).astype(np.float32)
    memory = rng.normal(size=(9, inputs + outputs)).astype(np.float32)
    step = Step(LINEAR, 0, inputs, inputs, outputs, address_of(weight))
    alone = [memory[text : text + 1].copy() for text in range(9)]
    for number in range(3):
        linear(memory, step, Share(number, 3))
    for text in range(9):
        linear(alone[text], step, Share(0, 1))
        np.testing.assert_array_equal(alone[text][0], memory[text])
