"""Quantised models: the same pass token by token as at once, near that of the floats, in less memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import models
from minigrad import InputError, no_grad
from minigrad.adapters import adapt, merge
from minigrad.kernels.decoding.lines import CODES
from minigrad.programs.decoder import Decoder
from minigrad.quantised import format_of, quantise
from tests.models.tiny import TINY, build, tokens

CASES = [*((family, "int8") for family in TINY), *(("gpt2", format) for format in CODES if format != "int8")]


@pytest.mark.parametrize(("family", "format"), CASES)
def test_decoding_equals_the_whole_pass_on_quantised_weights(family: str, format: str) -> None:
    model, ids = build(family).eval(), tokens(0, 3, 20)
    floats = model(ids).data
    quantise(model, format)
    whole = model(ids).data
    assert 0 < np.abs(whole - floats).max() < (0.5 if format == "int8" else 1) * np.abs(floats).max()
    cache, decoder = model.new_cache(3, 20), Decoder(model)
    with no_grad():
        model(ids[:, :7], cache=cache)
    worst = max(float(np.abs(decoder.step(ids[:, t], cache) - whole[:, t]).max()) for t in range(7, 20))
    assert worst <= 1e-5 * max(1, np.abs(whole).max())


def test_the_floats_are_freed() -> None:
    model = models.build("gpt2", size="nano")
    quantise(model, "int8")  # compiled
    tracemalloc.start()
    try:
        model = models.build("gpt2", size="nano")
        before = tracemalloc.get_traced_memory()[0]
        quantise(model, "int8")
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert model.num_parameters() < after < 1.2 * model.num_parameters()
    assert before > 8 * model.num_parameters()  # values and gradients


def test_what_cannot_be_quantised_is_refused() -> None:
    model = build("vidya-v2")
    with pytest.raises(InputError, match="unknown format of weights 'int9'; did you mean 'int8'"):
        quantise(model, "int9")
    quantise(model, "int8")
    assert format_of(model) == "int8"
    with pytest.raises(InputError, match="is stored as int8"):
        quantise(model, "int4")
    with pytest.raises(InputError, match="float64"):
        quantise(build("vidya-v2", "float64"), "int8")
    broken = build("vidya-v2")
    broken.head().data[0, 0] = np.nan
    with pytest.raises(InputError):
        quantise(broken, "int8")
    assert all(parameter.requires_grad for parameter in broken.parameters())  # it can be trained as before


def test_a_model_with_adapters_is_rounded_before_or_after_they_are_merged() -> None:
    model = build("gpt2")
    adapt(model, 2)
    with pytest.raises(InputError, match="adapters, and would be lost"):
        quantise(model, "int8")
    merge(model)
    quantise(model, "int8")
    assert format_of(model) == "int8"
