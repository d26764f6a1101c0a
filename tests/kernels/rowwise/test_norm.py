"""RMSNorm and LayerNorm: shapes, statistics, and weight gradients over more rows than a chunk."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.rowwise import norm


def _inputs(rows: int, width: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    return [rng.normal(size=(rows, width)) for _ in range(2)] + [rng.normal(size=width) for _ in range(2)]


def test_rows_have_mean_zero_and_variance_one() -> None:
    x, *_ = _inputs(6, 50)
    y, mean, inverse = norm.layer_norm_forward(x.reshape(2, 3, 50), np.ones(50), np.zeros(50), 0.0)
    assert y.shape == (2, 3, 50)
    np.testing.assert_allclose(y.mean(axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose(y.var(axis=-1), 1, rtol=1e-12)
    np.testing.assert_allclose(mean, x.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(inverse, 1 / x.std(axis=1), rtol=1e-12)


def test_rows_have_root_mean_square_one() -> None:
    x, *_ = _inputs(6, 50)
    y, inverse = norm.rms_norm_forward(x, np.ones(50), 0.0)
    np.testing.assert_allclose((y * y).mean(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(inverse * np.sqrt((x * x).mean(axis=1)), 1, rtol=1e-12)


def test_a_row_of_zeros_is_saved_by_eps() -> None:
    x = np.zeros((1, 8), np.float32)
    assert np.isfinite(norm.rms_norm_forward(x, np.ones(8, np.float32), 1e-5)[0]).all()
    assert np.isfinite(norm.layer_norm_forward(x, *np.ones((2, 8), np.float32), 1e-5)[0]).all()


@pytest.mark.parametrize("rows", [1, norm._CHUNK - 1, norm._CHUNK, norm._CHUNK + 1, 3 * norm._CHUNK + 5])
def test_weight_gradients_are_sums_over_all_rows(rows: int) -> None:
    x, dy, weight, bias = _inputs(rows, 7)
    _, inverse = norm.rms_norm_forward(x, weight, 1e-5)
    _, dw = norm.rms_norm_backward(dy, x, weight, inverse)
    np.testing.assert_allclose(dw, (dy * x * inverse[:, None]).sum(axis=0), rtol=1e-10)
    _, mean, inverse = norm.layer_norm_forward(x, weight, bias, 1e-5)
    dx, dw, db = norm.layer_norm_backward(dy, x, weight, mean, inverse)
    np.testing.assert_allclose(dw, (dy * (x - mean[:, None]) * inverse[:, None]).sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(db, dy.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(dx.sum(axis=1), 0, atol=1e-10)  # a constant added to a row changes nothing
