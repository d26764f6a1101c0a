"""The steps between the products, where their formulas are delicate."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.decoding.program import (
    EXACT_GELU,
    GELU,
    LAYER_NORM,
    OFFSET_RMS_NORM,
    RMS_NORM,
    SWIGLU,
    Share,
    Step,
)
from minigrad.kernels.decoding.rows import activate, normalise

SCALE, ZEROS = np.full(4, 2, np.float32), np.zeros(4, np.float32)
ALONE = Share(0, 1)


@pytest.mark.parametrize("code", [RMS_NORM, OFFSET_RMS_NORM, LAYER_NORM])
def test_a_row_of_zeros_stays_a_row_of_zeros(code: int) -> None:
    memory = np.zeros((1, 4), np.float32)
    normalise(memory, Step(code, 0, 0, 4, 4, address_of(SCALE), address_of(ZEROS)), 1e-5, ALONE)
    assert memory.tolist() == [[0, 0, 0, 0]]


def test_a_centred_row_forgets_its_mean() -> None:
    memory = np.array([[1_001, 1_003, 1_001, 1_003]], np.float32)
    normalise(memory, Step(LAYER_NORM, 0, 0, 4, 4, address_of(SCALE), address_of(ZEROS)), 0.0, ALONE)
    # Some processors have the compiler estimate 1 / sqrt(x) and improve it, which may miss by a unit in the last place.
    assert np.allclose(memory, [[-2, 2, -2, 2]], rtol=2e-7, atol=0)


@pytest.mark.parametrize("code", [GELU, EXACT_GELU, SWIGLU])
def test_large_inputs_do_not_overflow(code: int) -> None:
    memory = np.array([[-1e4, 1e4, 1, 1]], np.float32)
    activate(memory, Step(code, 0, 2, 2, 2), ALONE)
    assert memory.tolist() == [[-1e4, 1e4, 0, 1e4]]
