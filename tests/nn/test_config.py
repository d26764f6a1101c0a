"""Initial standard deviations of the families, and configs as the surrounding code uses them."""

from __future__ import annotations

import dataclasses
import math

import pytest

import models
from minigrad.nn.config import ModelConfig, laptop_init_std, residual_std


def test_matrices_into_the_residual_stream_are_smaller_by_the_root_of_their_number() -> None:
    config = models.configure("vidya-v2", num_layers=8, init_std=0.04)
    assert residual_std(config) == pytest.approx(0.04 / 4)


@pytest.mark.parametrize("width", [64, 96, 576, 1_024])
def test_the_laptop_standard_deviation_keeps_the_size_of_outputs(width: int) -> None:
    assert laptop_init_std(width) * math.sqrt(width) == pytest.approx(0.02 * math.sqrt(576), rel=5e-3)


@pytest.mark.parametrize("family", models.FAMILIES)
def test_every_config_is_frozen_and_has_the_properties_of_a_model_config(family: str) -> None:
    config = models.configure(family)
    names = [name for name, value in vars(ModelConfig).items() if isinstance(value, property)]
    assert len(names) == 11
    assert all(isinstance(getattr(config, name), int | float) for name in names)
    assert config.activations_per_token() > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.width = 3  # type: ignore[misc]
