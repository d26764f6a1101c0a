"""The entropy of attention: against the formula, and its two ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad.kernels.gemm import backend
from minigrad.kernels.gemm.narrow import round_bfloat16
from minigrad.ops.attention import relative_entropy, relative_entropy_formula
from minigrad.ops.visible_keys import causal_visible
from tests.ops.test_attention import case_of


def options_of(offsets: Any, window: int) -> dict[str, Any]:
    ranges = np.stack([offsets[:-1], offsets[1:]], axis=1)
    first = np.maximum(causal_visible(offsets) - window, 0)
    return {"offsets": offsets, "key_ranges": ranges, "first_visible": first}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", [1, 5, 300])
def test_it_is_that_of_the_formula(dtype: Any, window: int) -> None:
    case = case_of([90, 0, 300], heads=4, groups=2)
    q, k, _ = (x.astype(dtype) for x in case.arrays)
    options = options_of(case.options["offsets"], window)
    got = relative_entropy(q, k, **options)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, relative_entropy_formula(q, k, **options), rtol=0, atol=1e-5)


def test_it_is_one_where_all_keys_are_alike_and_zero_where_one_has_all_the_probability() -> None:
    offsets, k = np.array([0, 6]), np.arange(6.0).reshape(6, 1, 1)
    even = relative_entropy(np.zeros((6, 1, 1)), k, **options_of(offsets, 4))
    np.testing.assert_allclose(even, [0, 1, 1, 1, 1, 1], rtol=1e-12)
    sharp = relative_entropy(np.full((6, 1, 1), 1e3), k, **options_of(offsets, 4))
    np.testing.assert_allclose(sharp, 0, atol=1e-9)


@pytest.mark.parametrize("score", [1e4, 1e6, 1e8])
def test_it_stays_in_its_range_where_scores_are_large(score: float) -> None:
    rng = np.random.default_rng(0)
    offsets, q, spread = np.array([0, 64]), np.full((64, 2, 3), score, np.float32), np.ones((64, 1, 3), np.float32)
    even = relative_entropy(q, spread, **options_of(offsets, 64))
    assert (even <= 1).all()
    np.testing.assert_allclose(even[1:], 1, atol=1e-7 * score)
    sharp = relative_entropy(q, rng.normal(size=(64, 1, 3)).astype(np.float32), **options_of(offsets, 64))
    assert (sharp >= 0).all()
    assert (sharp <= 1).all()


def test_in_bfloat16_all_scores_are_of_rounded_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_precision", "bfloat16")
    rng, offsets = np.random.default_rng(0), np.array([0, 64])
    q, k = (rng.normal(size=(64, 2, 32)).astype(np.float32) * 5 for _ in range(2))
    options = options_of(offsets, 64)
    rounded = [round_bfloat16(each.reshape(64, -1)).reshape(each.shape) for each in (q, k)]
    wanted = relative_entropy_formula(*rounded, **options)
    assert np.abs(relative_entropy(q, k, **options) - wanted).max() < 0.01
