"""The fit finds the constants of a law again from runs that follow it."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.training.planning.fitting import fit
from minigrad.training.planning.scaling import Law, Point

TRUE = Law(0.8, 60.0, 0.4, 900.0, 0.45, 6.0)


def runs(noise: float = 0.0) -> list[Point]:
    rng = np.random.default_rng(0)
    grid = [(size, tokens, unique) for size in (1e5, 1e6, 1e7) for tokens in (1e6, 4e6, 3e7) for unique in (5e5, 1e12)]
    return [Point(*map(int, run), TRUE.loss(*run) + noise * rng.normal()) for run in grid]


def test_known_constants_are_found_again():
    assert fit(runs()) == pytest.approx(TRUE, rel=0.02)


def test_noise_changes_the_constants_more_than_what_they_predict():
    found = fit(runs(0.01))
    for run in runs():
        assert found.loss(*run[:3]) == pytest.approx(TRUE.loss(*run[:3]), abs=0.03)
