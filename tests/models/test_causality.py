"""In every model a position depends on no later token, and neither a cache nor the rest of a batch changes a result."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import models
from minigrad import Tensor, nn, ops
from tests.models.tiny import CONTEXT, TINY, TOLERANCE, VOCAB, assert_same, build, family_of, tokens

Array = NDArray[Any]
MODELS = {(family, dtype): build(family, dtype).eval() for family in TINY for dtype in TOLERANCE}

every_family = pytest.mark.parametrize("family", TINY)
both_types = pytest.mark.parametrize("dtype", TOLERANCE)


def logits(model: Any, ids: Array, cache: Any = None) -> Array:
    result: Array = model(ids, cache=cache).data
    return result


def test_every_family_is_tested() -> None:
    assert {family_of(name) for name in TINY} == set(models.FAMILIES)


def check_causality(dtype: str, model: Any, ids: Array, part: int) -> None:
    whole = logits(model, ids)
    assert_same(dtype, logits(model, ids[:, :part]), whole[:, :part])
    changed = ids.copy()
    changed[:, part:] = (changed[:, part:] + 1) % VOCAB
    assert_same(dtype, logits(model, changed)[:, :part], whole[:, :part])


def check_cache(dtype: str, model: Any, ids: Array, chunks: list[int]) -> None:
    whole = logits(model, ids)
    for sizes in (chunks, [1] * ids.shape[1]):
        cache = model.new_cache(len(ids), max_length=CONTEXT)
        cuts = np.cumsum([0, *sizes]).clip(max=ids.shape[1])
        parts = [logits(model, ids[:, a:b], cache) for a, b in itertools.pairwise(cuts) if a < b]
        assert_same(dtype, np.concatenate(parts, axis=1), whole)


@every_family
@both_types
@given(seed=st.integers(0, 99), length=st.integers(1, CONTEXT), data=st.data())
@settings(max_examples=12)
def test_no_position_depends_on_a_later_token(
    family: str, dtype: str, seed: int, length: int, data: st.DataObject
) -> None:
    check_causality(dtype, MODELS[family, dtype], tokens(seed, 2, length), data.draw(st.integers(1, length)))


@every_family
@both_types
@given(
    seed=st.integers(0, 99), batch_size=st.integers(1, 3), chunks=st.lists(st.integers(1, 7), min_size=1, max_size=6)
)
@settings(max_examples=12)
def test_with_a_cache_chunks_and_single_tokens_give_what_the_whole_gives(
    family: str, dtype: str, seed: int, batch_size: int, chunks: list[int]
) -> None:
    check_cache(dtype, MODELS[family, dtype], tokens(seed, batch_size, min(sum(chunks), CONTEXT)), chunks)


@every_family
@given(seed=st.integers(0, 99), begun=st.integers(1, 15), kept=st.integers(0, 8), chosen=st.permutations([0, 1, 2, 1]))
@settings(max_examples=8)
def test_a_cache_of_selected_texts_that_was_cut_gives_what_the_whole_gives(
    family: str, seed: int, begun: int, kept: int, chosen: list[int]
) -> None:
    model, ids = MODELS[family, "float64"], tokens(seed, 3, CONTEXT)
    cache = model.new_cache(3, max_length=CONTEXT)
    logits(model, ids[:, :begun], cache)
    cache = cache.select(chosen)
    cache.mark()
    logits(model, tokens(seed + 1, 4, kept), cache)  # another continuation, which is taken back
    cache.truncate(begun)
    rest = ids[chosen, cache.lengths[0] :]
    found = np.concatenate([logits(model, rest[:, t : t + 1], cache) for t in range(rest.shape[1])], axis=1)
    assert_same("float64", found, logits(model, ids[chosen])[:, -rest.shape[1] :])


def test_a_model_that_sees_the_next_token_and_a_cache_that_does_not_advance_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, ids = MODELS["vidya-v2", "float32"], tokens(0, 1, 9)
    check_causality("float32", model, ids, 4)
    check_cache("float32", model, ids, [4, 5])
    with monkeypatch.context() as patch:
        patch.setattr(nn.KeyValueCache, "advance", lambda self, counts: None)
        with pytest.raises(AssertionError):
            check_cache("float32", model, ids, [4, 5])
    attention = ops.attention

    def see_one_more(*arrays: Any, offsets: Any, key_ranges: Any = None) -> Tensor:
        lengths = np.diff(offsets)
        one_more = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths) + 2
        return attention(*arrays, offsets=offsets, visible=np.minimum(one_more, np.repeat(lengths, lengths)))

    with monkeypatch.context() as patch:
        patch.setattr(ops, "attention", see_one_more)
        with pytest.raises(AssertionError):
            check_causality("float32", model, ids, 4)


@every_family
@both_types
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(0, CONTEXT), min_size=1, max_size=4))
@settings(max_examples=10)
def test_a_packed_batch_gives_what_its_sequences_give_one_by_one(
    family: str, dtype: str, seed: int, lengths: list[int]
) -> None:
    model = MODELS[family, dtype]
    sequences = [tokens(seed + index, 1, length)[0] for index, length in enumerate(lengths)]
    offsets = np.cumsum([0, *lengths])
    layout = nn.Layout(offsets, np.concatenate([np.arange(length) for length in lengths]))
    together = model.hidden(Tensor(np.concatenate(sequences)), layout).data
    for sequence, (a, b) in zip(sequences, itertools.pairwise(offsets), strict=True):
        alone = model.hidden(Tensor(sequence), nn.Layout.rectangular(1, len(sequence))).data
        assert_same(dtype, together[a:b], alone)
