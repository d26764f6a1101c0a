"""A decoder computes the logits of the whole model, for one text as for many, at every position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import models
from minigrad import InputError, ShapeError, Tensor, no_grad
from minigrad.kernels.decoding.program import Step
from minigrad.kernels.gemm import backend
from minigrad.nn import Layout
from minigrad.nn.cache import KeyValueCache
from minigrad.programs.decoder import Decoder
from tests.models.defaults import build_default
from tests.models.tiny import TINY, WITH_PROGRAM, build, tokens
from tests.programs.own_family import Own, OwnConfig

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
CHANGED = {
    "vidya-v2": [{"rope_scaling": "yarn", "rope_factor": 4.0}, {"tied_head": False}, {"num_kv_heads": 1}],
    "gpt2": [{"tied_head": False}],
}
CASES = [(family, changes) for family in TINY for changes in [{}, *CHANGED.get(family, [])]]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("family", "changes"), CASES)
def test_decoding_equals_the_whole_pass_at_every_position(family: str, changes: dict[str, object], dtype: str) -> None:
    model = build(family, dtype, **changes).eval()
    ids = tokens(0, 3, 20)
    whole = model(ids).data
    cache, decoder = model.new_cache(3, 20), Decoder(model)
    with no_grad():
        begun = model(ids[:, :7], cache=cache).data  # a prompt, by the model itself
    assert np.abs(begun - whole[:, :7]).max() <= TOLERANCE[dtype] * max(1, np.abs(whole).max())
    for position in range(7, 20):
        logits = decoder.step(ids[:, position], cache)
        assert logits.dtype == dtype
        assert np.abs(logits - whole[:, position]).max() <= TOLERANCE[dtype] * max(1, np.abs(whole).max())
    assert cache.lengths.tolist() == [20] * 3


@pytest.mark.parametrize("family", models.FAMILIES)
def test_a_default_model_decodes_as_the_whole_pass_beyond_its_windows(family: str) -> None:
    model = build_default(family, seed=1).eval()
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, (2, 160))
    whole, cache, decoder = model(ids).data, model.new_cache(2), Decoder(model)
    worst = max(float(np.abs(decoder.step(ids[:, t], cache) - whole[:, t]).max()) for t in range(160))
    assert worst <= 1e-5 * max(1, np.abs(whole).max())


@pytest.mark.parametrize("family", WITH_PROGRAM)
def test_a_text_has_the_same_logits_alone_and_in_a_batch(family: str) -> None:
    model = build(family).eval()
    ids, decoder = tokens(1, 5, 9), Decoder(model)
    together, alone = model.new_cache(5, 9), [model.new_cache(1, 9) for _ in range(5)]
    for position in range(9):
        logits = decoder.step(ids[:, position], together)
        for text, cache in enumerate(alone):
            np.testing.assert_array_equal(decoder.step(ids[text, position : position + 1], cache)[0], logits[text])


def test_products_rounded_to_bfloat16_are_left_to_the_model() -> None:
    model, ids = build("vidya-v2").eval(), tokens(2, 1, 2)
    backend.use("auto", "bfloat16")
    try:
        whole, cache, decoder = model(ids).data, model.new_cache(1, 4), Decoder(model)
        for position in range(2):
            found = decoder.step(ids[:, position], cache)
            np.testing.assert_allclose(found, whole[:, position], atol=1e-5 * np.abs(whole).max())
    finally:
        backend.use()


@pytest.mark.parametrize("family", ["vidya-v2", "wiola"])
def test_bad_input_is_refused_and_the_cache_stays(family: str) -> None:
    model = build(family).eval()
    cache, decoder = model.new_cache(2, 2), Decoder(model)
    with pytest.raises(InputError, match="12"):
        decoder.step([3, 13], cache)
    with pytest.raises(InputError, match="the cache holds 2 sequences, but got tokens of 3"):
        decoder.step([1, 2, 3], cache)
    assert cache.lengths.tolist() == [0, 0]
    decoder.step([1, 2], cache)
    decoder.step([1, 2], cache)
    with pytest.raises(InputError, match="capacity of 2 tokens"):
        decoder.step([1, 2], cache)


def test_the_cache_of_another_model_is_refused() -> None:
    decoder = Decoder(build("vidya-v2").eval())
    for other in (build("vidya-v2", num_layers=1), build("vidya-v2", "float64"), build("vidya-v2", head_dim=2)):
        with pytest.raises(ShapeError, match="new_cache"):
            decoder.step([1], other.eval().new_cache(1, 2))


def test_a_cache_that_keeps_other_things_is_refused() -> None:
    """Its arrays would be written outside of their ends: the loops of a program check no index."""
    shifted = build("vidya-v2", key_shift=True).eval()
    with pytest.raises(ShapeError, match="new_cache"):
        Decoder(shifted).step([1], build("vidya-v2", key_shift=False).eval().new_cache(1, 2))
    wiola = build("wiola").eval()
    config = wiola.config
    plain = KeyValueCache(config.num_layers, 1, 2, config.num_kv_heads, config.head_dim)
    with pytest.raises(ShapeError, match="a KeyValueCache of another model"):
        Decoder(wiola).step([1], plain)
    small, large = (build("vsla", block=block, window=block).eval() for block in (1, 2))
    with pytest.raises(ShapeError, match="a PatternCache of another model"):
        Decoder(small).step([1], large.new_cache(1, 4))


def test_a_first_step_without_texts_has_no_logits_of_any() -> None:
    model = build("vidya-v2").eval()
    nothing = np.zeros(0, np.int64)
    cache = model.new_cache(2, 4)
    layout = Layout.packed(np.zeros(2, np.int64))
    assert Decoder(model).step(nothing, cache, layout).shape == (0, model.config.vocab_size)


class WithoutAttention(Own):
    """Feed-forward blocks alone, whose cache stays empty."""

    def hidden(self, tokens: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        x = self.table(tokens)
        for block in self.gated:
            x = x + block(x)
        return x


def test_a_model_without_attention_has_a_program_too() -> None:
    model = WithoutAttention(OwnConfig()).eval()
    decoder, cache = Decoder(model), model.new_cache(1, 4)
    assert decoder.has_program
    with no_grad():
        whole = model([[3, 5]]).data
    for position, token in enumerate((3, 5)):
        np.testing.assert_allclose(decoder.step([token], cache), whole[:, position], rtol=1e-5, atol=1e-5)


def test_weights_changed_in_place_are_followed() -> None:
    model = build("vidya-v2").eval()
    decoder = Decoder(model)
    before = decoder.step([3], model.new_cache(1, 2))
    for parameter in model.parameters():
        parameter.data *= 1.5
    after, new = (each.step([3], model.new_cache(1, 2)) for each in (decoder, Decoder(model)))
    np.testing.assert_array_equal(after, new)
    assert np.abs(after - before).max() > 0.1


def test_decoders_of_one_model_read_the_same_memory_until_the_weights_change() -> None:
    model = build("gpt2").eval()

    def places() -> set[int]:
        return set(Decoder(model)._table[:, Step._fields.index("weight")].tolist())

    before = places()
    assert places() == before  # the transposed copies of GPT-2's matrices, too
    layer = model.h[0].mlp.c_fc
    copy = layer.lines()
    with no_grad():
        layer.weight[...] = 2 * layer.weight.data
    np.testing.assert_array_equal(layer.lines(), 2 * copy)
    model.loss([[1, 2]], [[2, 3]])  # a step of training needs the memory
    assert layer._copy is None
