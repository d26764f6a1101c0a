"""Two sets of keys joined in one softmax: that of both together, however large the scores are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad.kernels.attention.plan import Denominators
from minigrad.ops.joined_attention import joined
from minigrad.ops.softmax import softmax_formula
from tests import op_checks
from tests.op_table import Array, Case


def attended(scores: Array, values: Array, scale: float) -> tuple[Array, Denominators]:
    """Return the output for one set of keys, and its denominators: of no keys, 0 and a largest score of -inf."""
    largest = scores.max(axis=-1, initial=-np.inf)
    powers = np.exp((scores - np.where(np.isfinite(largest), largest, 0)[..., None]) * scale)
    total = powers.sum(axis=-1)
    return (powers @ values) / np.where(total == 0, 1, total)[..., None], Denominators(largest, total)


@pytest.mark.parametrize("counts", [(3, 2), (0, 2), (3, 0)])
@pytest.mark.parametrize("size", [1.0, 1e6])
def test_two_sets_of_keys_give_what_all_keys_give(counts: tuple[int, int], size: float) -> None:
    rng, scale = np.random.default_rng(0), 0.5
    scores = [rng.normal(size=(4, 2, count)) * size for count in counts]  # (rows, H, keys)
    values = [rng.normal(size=(count, 3)) for count in counts]
    parts = [attended(each, of_each, scale) for each, of_each in zip(scores, values, strict=True)]
    out, z, share = joined(*parts[0], *parts[1], scale)
    p = softmax_formula(np.concatenate(scores, axis=-1) * scale)
    np.testing.assert_allclose(out, p @ np.concatenate(values), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(share, p[..., counts[0] :].sum(axis=-1), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(z.largest, np.concatenate(scores, axis=-1).max(axis=-1))


def assert_gradients_of_values_keep_their_digits(op: Any, arrays: tuple[Array, ...], options: dict[str, Any]) -> None:
    """Compare large scores in float32 with small ones in float64, for keys that are all equal."""
    _, k, v, more_k, more_v = arrays
    found = []
    for score, dtype in ((1.0, np.float64), (1e4, np.float32), (1e8, np.float32)):
        given = np.full_like(arrays[0], score), np.ones_like(k), v, np.ones_like(more_k), more_v
        result, gradients = op_checks.run(op, Case(tuple(x.astype(dtype) for x in given), options))
        found.append((result, gradients[2], gradients[4]))
    for large in found[1:]:
        for got, wanted in zip(large, found[0], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
