"""The measure of collapse."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.wiola_long import collapse, left_of
from tests.models.tiny import CONTEXT, build, tokens


def test_rows_that_are_equal_have_collapsed_and_rows_around_zero_have_not() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 8))
    assert left_of(np.ones((5, 3))) == 0
    assert left_of(rows - rows.mean(axis=0)) == pytest.approx(1)
    assert left_of(rows + 100) < 0.02


def test_every_layer_is_measured_and_the_model_is_left_as_it_was() -> None:
    model, ids = build("wiola").eval(), tokens(0, 1, CONTEXT)[0]
    before = model(ids[None]).data
    assert len(collapse(model, ids)) == 6
    np.testing.assert_array_equal(model(ids[None]).data, before)
