"""The steps of summaries: a running mean, and what beta and a gate leave of their parts."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.decoding.kept import Kept
from minigrad.kernels.decoding.program import ATTEND_TO_FEW, BLEND, SUMMARISE, Heads, Share, Step, Texts
from minigrad.kernels.decoding.rows import attend_to_few, blend, summarise

ALONE, NONE = Share(0, 1), np.empty((0, 0), np.float32)


def test_the_mean_of_a_text_begins_with_its_first_token() -> None:
    stored, sums = np.empty((1, 2, 0, 1, 2), np.float32), np.zeros((1, 2, 2))
    for length, (x, mean) in enumerate([([4, 2], [4, 2]), ([0, 4], [2, 3]), ([2, 0], [2, 2])]):
        texts = Texts(np.zeros(1, np.int64), np.array([length]), np.array([1]), *[Kept.of(stored)] * 4, sums)
        memory = np.array([[*x, 0, 0]], np.float32)
        summarise(memory, Step(SUMMARISE, 0, 2, 2, 2), texts, ALONE)
        assert memory[0, 2:].tolist() == mean
    assert sums.tolist() == [[[0, 0], [6, 6]]]


@pytest.mark.parametrize(("beta", "wanted"), [(0, [9, 9]), (1, [5, 6]), (0.5, [7, 7.5])])
def test_one_key_gets_the_share_beta(beta: float, wanted: list[float]) -> None:
    memory, weight = np.array([[1, 2, 3, 4, 5, 6, 9, 9]], np.float32), np.array([beta], np.float32)
    step = Step(ATTEND_TO_FEW, 0, 6, 6, 2, address_of(weight))
    attend_to_few(memory, step, Heads(1, 1, 2, np.zeros((1, 4)), NONE, NONE, False), ALONE)
    assert memory[0, 6:].tolist() == wanted


def test_a_gate_that_is_closed_leaves_out_one_part() -> None:
    memory = np.array([[1, 2, 30, 40, 1e4, -1e4, 5, 5]], np.float32)
    blend(memory, Step(BLEND, 0, 6, 6, 2), ALONE)
    assert memory[0, 6:].tolist() == [6, 45]
