"""Caches in 16 and 8 bits: what is read is what was stored, however the tokens arrived, and near what was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
from minigrad import InputError, Tensor
from minigrad.generation.settings import GenerateConfig
from minigrad.kernels.decoding.kept import FORMATS
from minigrad.nn import KeyValueCache, Layout
from minigrad.nn.language_model import LanguageModel
from minigrad.options import options
from minigrad.programs.decoder import Decoder
from minigrad.typing import Array
from tests.models.defaults import build_default
from tests.models.test_ragged_cache import MERGING, built, read
from tests.models.tiny import CONTEXT, TINY, tokens

ROUNDED = FORMATS[1:]
BOUND = {"bfloat16": 0.06, "int8": 0.12}
"""Of the largest logit, with large random weights, which let sparse and adaptive layers choose other keys."""
BOUND_OF_DEFAULT = {"bfloat16": 0.002, "int8": 0.006}
"""The same with the weights with which training begins, where layers choose no keys."""
BOUND_WITH_CHOICES = 0.02
MODELS = {name: built(name, "float64") for name in (*TINY, *MERGING)}

every_model = pytest.mark.parametrize("name", MODELS)
each_format = pytest.mark.parametrize("format", ROUNDED)


def in_format(model: LanguageModel, format: str) -> LanguageModel:
    model.cache_format = format
    return model


def one_by_one(model: LanguageModel, ids: Array, cache: Any) -> Array:
    decoder = Decoder(model)
    return np.stack([decoder.step(ids[:, t], cache) for t in range(ids.shape[1])], axis=1)


@each_format
@every_model
@given(seed=st.integers(0, 99), data=st.data())
@settings(max_examples=4)
def test_it_does_not_matter_how_the_tokens_arrive(name: str, format: str, seed: int, data: st.DataObject) -> None:
    """In float64, where rounding does not reach the next number of 8 bits."""
    model, ids = in_format(MODELS[name], format), tokens(seed, 3, CONTEXT) // 2
    whole = model(ids, cache=model.new_cache(3, CONTEXT)).data
    allowed = 1e-10 * max(1, np.abs(whole).max())
    np.testing.assert_allclose(one_by_one(model, ids, model.new_cache(3, CONTEXT)), whole, rtol=0, atol=allowed)
    cache, decoder = model.new_cache(3, CONTEXT), Decoder(model)
    for most in data.draw(st.lists(st.sampled_from([1, 3, 9]), min_size=1, max_size=4)):
        counts = np.array(data.draw(st.lists(st.integers(0, most), min_size=3, max_size=3)))
        counts = np.minimum(counts, CONTEXT - cache.lengths)
        wanted = [row[a : a + n] for row, a, n in zip(whole, cache.lengths, counts, strict=True)]
        found = read(decoder, ids, cache, counts)
        np.testing.assert_allclose(found, np.concatenate(wanted), rtol=0, atol=allowed)


@each_format
@pytest.mark.parametrize("name", TINY)
def test_a_cache_that_was_selected_and_cut_goes_on_as_if_it_were_new(name: str, format: str) -> None:
    model, ids = in_format(MODELS[name], format), tokens(5, 2, CONTEXT)
    whole = model(ids, cache=model.new_cache(2, CONTEXT)).data
    cache = model.new_cache(2, CONTEXT)
    model(ids[:, :9], cache=cache)
    cache = cache.select([1, 0])
    cache.mark()
    model(ids[:, :5], cache=cache)
    cache.truncate(9)
    found = model(ids[::-1, 9:], cache=cache).data
    np.testing.assert_allclose(found, whole[::-1, 9:], rtol=0, atol=1e-10 * max(1, np.abs(whole).max()))


@each_format
@every_model
def test_logits_stay_near_those_without_a_cache(name: str, format: str) -> None:
    model, ids = in_format(MODELS[name], format), tokens(0, 3, CONTEXT)
    whole = model(ids).data
    off = np.abs(model(ids, cache=model.new_cache(3, CONTEXT)).data - whole).max() / np.abs(whole).max()
    assert 1e-5 < off < BOUND[format]


@each_format
@pytest.mark.parametrize("family", models.FAMILIES)
def test_logits_of_a_default_model_stay_near_those_without_a_cache(family: str, format: str) -> None:
    """At sizes of heads that are widened together, and lengths of several parts of attention."""
    model = in_format(build_default(family, seed=1, vocab_size=300).eval(), format)
    ids = np.random.default_rng(0).integers(0, 300, (1, 100))
    whole, cache, decoder = model(ids).data, model.new_cache(1, 100), Decoder(model)
    begun = model(ids[:, :60], cache=cache).data
    rest = [decoder.step(ids[:, t], cache)[:, None] for t in range(60, 100)]
    off = np.abs(np.concatenate([begun, *rest], axis=1) - whole).max() / np.abs(whole).max()
    assert 1e-6 < off < (BOUND_WITH_CHOICES if family == "vsla" else BOUND_OF_DEFAULT[format])


def test_a_cache_takes_the_memory_of_its_format() -> None:
    sizes = {}
    for format in FORMATS:
        model = in_format(MODELS["vidya-v2"], format)
        sizes[format] = model.new_cache(2, 10).num_bytes
    rows = 2 * 2 * 2 * 10 * 2  # keys and values, layers, texts, tokens, heads
    assert sizes == {"float32": rows * 4 * 8, "bfloat16": rows * 4 * 2, "int8": rows * (4 + 4)}  # a float64 model


@each_format
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_not_finite_stay_so(wrong: float, format: str) -> None:
    model, ids = in_format(built("gpt2", "float32"), format), tokens(0, 1, 3)
    model.h[1].attn.c_attn.bias.data[-1] = wrong  # of a value
    cache, decoder = model.new_cache(1, 3), Decoder(model)
    assert not np.isfinite(model(ids[:, :2], cache=cache).data).any()
    assert not np.isfinite(decoder.step(ids[:, 2], cache)).any()


def test_only_known_formats_are_kept() -> None:
    with pytest.raises(InputError, match="unknown format of a cache 'int9'; did you mean 'int8'"):
        KeyValueCache(1, 1, 4, 1, 2).in_format("int9")
    assert next(each for each in options(GenerateConfig) if each.name == "cache_format").choices == FORMATS


def test_texts_without_new_tokens_are_not_widened() -> None:
    cache = KeyValueCache(1, 3, 9, 1, 4).in_format("int8")
    layout = Layout.packed([2, 0, 1])
    k = Tensor(np.ones((3, 1, 4), np.float32))
    for _ in range(2):
        keys, _, ranges = cache.append(0, k, k, layout.offsets)
        cache.advance(layout.lengths)
    assert ranges.tolist() == [[0, 4], [4, 4], [4, 6]]
    np.testing.assert_allclose(keys.data, np.ones((6, 1, 4)), rtol=0.004)
