"""Rounding to bfloat16 for processors that do not multiply it."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.gemm.narrow import round_bfloat16
from tests.kernels.codegen.twins import rounded


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (2, 3, 4), (7,)])
def test_every_element_is_rounded_and_the_lower_half_of_its_bits_is_zero(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    y = round_bfloat16(x)
    assert y.shape == x.shape
    assert y.dtype == np.float32
    assert not (y.view(np.uint32) & 0xFFFF).any()
    np.testing.assert_array_equal(y, (rounded(x) << 16).view(np.float32).reshape(shape))


def test_a_transposed_matrix_stays_transposed_and_the_input_unchanged() -> None:
    x = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    before = x.copy()
    y = round_bfloat16(x.T)
    assert y.flags.f_contiguous
    assert not y.flags.c_contiguous
    np.testing.assert_array_equal(y.T, round_bfloat16(x))
    np.testing.assert_array_equal(x, before)
