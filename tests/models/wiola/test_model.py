"""The Wiola model: its equations in plain NumPy, the released names, and summaries that need the whole sequence."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
from minigrad import InputError
from tests.models.wiola import reference
from tests.models.wiola.tiny import build, logits, ratios, repeated


def test_the_released_file_has_exactly_these_names_and_shapes() -> None:
    """The size in bytes of the released 360m weights follows from names and shapes alone."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, parameter in sorted(models.skeleton("wiola", "360m").named_parameters()):
        size = 4 * int(np.prod(parameter.shape))
        header[name] = {"dtype": "F32", "shape": list(parameter.shape), "data_offsets": [position, position + size]}
        position += size
    text = json.dumps(header, separators=(",", ":"))
    padded = -(-len(text) // 8) * 8
    assert len(header) - 1 == 291
    assert len(struct.pack("<Q", padded)) + padded + position == 1_272_224_568


@given(seed=st.integers(0, 50), length=st.integers(1, 12), lookback=st.integers(1, 3))
@settings(max_examples=8)
def test_the_model_is_its_equations(seed: int, length: int, lookback: int) -> None:
    model, ids = build(gcla_lookback=lookback), repeated(seed, length)
    wanted, _ = reference.logits(ids[0], model.state_dict(), model.config)
    np.testing.assert_allclose(logits(model, ids)[0], wanted, rtol=0, atol=1e-10 * max(1, np.abs(wanted).max()))


def test_the_papers_summary_cannot_generate() -> None:
    model = build(gcla_summary="paper")
    with pytest.raises(InputError, match="cannot generate"):
        model.new_cache(1, 8)


def test_merge_ratios_are_measured_in_merging_layers_only() -> None:
    model = build(atm="first", atm_threshold=0.5, atm_at_generation=True).train()
    logits(model, repeated(0, 12))
    assert len(ratios(model)) == 2
    measured = ratios(model)
    assert all(0 < ratio <= 0.5 for ratio in measured)
    logits(model.eval(), repeated(1, 12))
    assert ratios(model) == measured
    assert build(atm="off").measurements() == {}


def test_with_a_cache_a_model_in_training_mode_writes_as_in_evaluation_mode() -> None:
    model, ids = build(atm="first", atm_threshold=0.5), repeated(0, 12)
    wanted = logits(model, ids, model.new_cache(1, 12))
    np.testing.assert_array_equal(logits(model.train(), ids, model.new_cache(1, 12)), wanted)


def test_multiply_adds_count_the_context_matrices_once_per_summary() -> None:
    one, two = (build(gcla_lookback=lookback).macs_per_token(10) for lookback in (1, 2))
    # Four layers have one more summary: two context matrices (8, 16), and scores and weighted values of width 16.
    assert two - one == 4 * (2 * 8 * 16 + 2 * 16)
