"""Texts of different lengths in one cache: each gives what it gives alone, however its tokens arrive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import InputError, ShapeError
from minigrad.nn import KeyValueCache, Layout
from minigrad.nn.language_model import LanguageModel
from minigrad.programs.decoder import Decoder
from minigrad.typing import Array
from tests.models.tiny import CONTEXT, TINY, TOLERANCE, WITH_PROGRAM, build, tokens

MERGING = {f"wiola, {variant}": variant for variant in ("first", "avg_causal", "kv_only")}


def built(name: str, dtype: str, **changes: Any) -> LanguageModel:
    if name in MERGING:
        changes |= {"atm": MERGING[name], "atm_threshold": 0.1, "atm_at_generation": True}
    return build(name.split(",")[0], dtype, **changes).eval()


MODELS = {(name, dtype): built(name, dtype) for name in (*TINY, *MERGING) for dtype in TOLERANCE}


def parts(rows: Array, begun: Array, counts: Array) -> Array:
    """Return for each text its next rows, packed: rows (texts, T, ...) -> (sum of counts, ...)."""
    return np.concatenate([row[a : a + n] for row, a, n in zip(rows, begun, counts, strict=True)])


def read(decoder: Decoder, ids: Array, cache: KeyValueCache, counts: Any) -> Array:
    """Read further tokens of each text, by the decoder where these are one or none; return their logits, packed."""
    new, layout = parts(ids, cache.lengths, counts), Layout.packed(counts)
    if layout.lengths.max() == 1:
        return decoder.step(new, cache, layout)
    logits: Array = decoder.model(new, cache=cache, layout=layout).data
    return logits


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", [*TINY, *MERGING])
@given(seed=st.integers(0, 99), data=st.data())
@settings(max_examples=8)
def test_texts_that_grow_by_different_numbers_of_tokens_give_what_the_whole_gives(
    name: str, dtype: str, seed: int, data: st.DataObject
) -> None:
    model, ids = MODELS[name, dtype], tokens(seed, 3, CONTEXT) // 2  # few different tokens, so that more of them merge
    whole, cache, decoder = model(ids).data, model.new_cache(3, CONTEXT), Decoder(model)
    for most in data.draw(st.lists(st.sampled_from([1, 1, 3, 9]), min_size=1, max_size=9)):
        counts = data.draw(st.lists(st.integers(0, most), min_size=3, max_size=3))
        counts = np.minimum(counts, CONTEXT - cache.lengths)
        wanted = parts(whole, cache.lengths, counts)
        found = read(decoder, ids, cache, counts)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[dtype] * max(1, np.abs(whole).max()))
        if data.draw(st.booleans()):  # one of the texts begins anew
            cache.truncate(np.where(np.arange(3) == data.draw(st.integers(0, 2)), 0, cache.lengths))


@pytest.mark.parametrize("name", [*TINY, *MERGING])
def test_a_text_is_the_same_alone_and_among_others(name: str) -> None:
    """Up to rounding, which depends on the number of rows in a product: with weights that do not amplify it."""
    model, ids = built(name, "float32", init_std=0.1), tokens(4, 3, CONTEXT)
    decoder, cache, alone = Decoder(model), model.new_cache(3, CONTEXT), [model.new_cache(1, CONTEXT) for _ in range(3)]
    for counts in ([2, 9, 4], [1, 0, 6], [1, 1, 1], [0, 1, 1], [1, 1, 1]):
        layout = Layout.packed(counts)
        found = read(decoder, ids, cache, counts)
        for text, (a, b) in enumerate(zip(layout.offsets, layout.offsets[1:], strict=False)):
            if a < b:
                by_itself = read(decoder, ids[text : text + 1], alone[text], [b - a])
                np.testing.assert_allclose(found[a:b], by_itself, rtol=0, atol=1e-6 * max(1, np.abs(by_itself).max()))


@pytest.mark.parametrize("family", WITH_PROGRAM)
def test_the_steps_of_a_program_give_a_text_the_same_bits_alone_and_among_others(family: str) -> None:
    model, ids = MODELS[family, "float32"], tokens(4, 3, CONTEXT)
    decoder, cache, alone = Decoder(model), model.new_cache(3, CONTEXT), [model.new_cache(1, CONTEXT) for _ in range(3)]
    for counts in ([1, 0, 0], [1, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]):
        found, texts = read(decoder, ids, cache, counts), np.flatnonzero(counts)
        for row, text in zip(found, texts, strict=True):
            np.testing.assert_array_equal(row, read(decoder, ids[text : text + 1], alone[text], [1])[0])


@pytest.mark.parametrize("family", TINY)
def test_the_last_logits_of_each_text_are_enough_to_write(family: str) -> None:
    model, ids = MODELS[family, "float64"], tokens(1, 3, CONTEXT)
    whole, cache = model(ids).data, model.new_cache(3, CONTEXT)
    layout = Layout.packed([5, 0, 2])
    new = np.concatenate([ids[0, :5], ids[2, :2]])
    for found in (model(new, layout=layout, last=2).data, model(new, cache=cache, layout=layout, last=2).data):
        np.testing.assert_allclose(found, [whole[0, 3:5], whole[2, :2]], atol=1e-10)
    with pytest.raises(InputError, match="last takes a whole number from 0 to 2, the number of positions, not 3"):
        model(new, cache=cache, layout=layout, last=3)
    assert cache.lengths.tolist() == [5, 0, 2]


def test_a_step_takes_one_token_of_a_text() -> None:
    model = MODELS["vidya-v2", "float32"]
    cache = model.new_cache(2, CONTEXT)
    with pytest.raises(ShapeError, match="a step continues a text with one token, not 2"):
        Decoder(model).step([1, 2, 3], cache, Layout.packed([2, 1]))
    with pytest.raises(ShapeError, match=r"a layout of 1 rows needs as many tokens \(rows,\), not \(2,\)"):
        Decoder(model).step([1, 2], cache, Layout.packed([0, 1]))
    assert cache.lengths.tolist() == [0, 0]
