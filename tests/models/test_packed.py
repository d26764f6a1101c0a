"""Packed sequences give what padded ones give behind a mask, and what each gives alone: forward and backward."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import InputError, ShapeError
from minigrad.constants import IGNORE
from minigrad.nn import Layout
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Array
from tests.models.tiny import CONTEXT, TINY, VOCAB, build

every_family = pytest.mark.parametrize("family", TINY)
MODELS = {family: build(family, "float64") for family in TINY}
MODELS["wiola that merges"] = build("wiola", "float64", atm="avg_causal", atm_threshold=0.0)
MODELS["wiola whose summaries leak"] = build("wiola", "float64", gcla_summary="paper")


def drawn(seed: int, lengths: list[int]) -> tuple[Array, Array]:
    """Draw tokens and targets (rows,), of which some do not count."""
    draw, rows = np.random.default_rng(seed), sum(lengths)
    return draw.integers(0, VOCAB, rows), np.where(draw.random(rows) < 0.2, IGNORE, draw.integers(0, VOCAB, rows))


def learned(model: LanguageModel, *batches: tuple[Any, Any, Layout | None, float]) -> tuple[float, list[Array]]:
    """Return the loss and the gradients of batches (tokens, targets, layout, weight)."""
    model.zero_grad()
    loss = 0.0
    for tokens, targets, layout, weight in batches:
        part = model.loss(tokens, targets, layout=layout)
        loss += weight * float(part.item())
        part.backward(np.array(weight))
    return loss, [np.array(parameter.grad) for parameter in model.parameters()]


def assert_same(ours: tuple[float, list[Array]], theirs: tuple[float, list[Array]]) -> None:
    assert ours[0] == pytest.approx(theirs[0], rel=1e-12)
    for mine, other in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-10 * max(1, np.abs(other).max(initial=0)))


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=12)
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(0, CONTEXT), min_size=1, max_size=5).filter(any))
def test_packed_padded_and_one_by_one_learn_the_same(name: str, seed: int, lengths: list[int]) -> None:
    model, (tokens, targets) = MODELS[name], drawn(seed, lengths)
    offsets, real = np.cumsum([0, *lengths]), max(int((targets != IGNORE).sum()), 1)
    packed = learned(model, (tokens, targets, Layout.packed(lengths), 1.0))
    alone = []
    for first, last in itertools.pairwise(offsets):
        text, wanted = tokens[None, first:last], targets[None, first:last]
        alone.append((text, wanted, None, int((wanted != IGNORE).sum()) / real))
    assert_same(packed, learned(model, *alone))
    if name != "wiola whose summaries leak":  # these are means over the padding, too
        assert_same(packed, learned(model, (*padded(lengths, tokens, targets), None, 1.0)))


def padded(lengths: list[int], tokens: Array, targets: Array) -> tuple[Array, Array]:
    """Return tokens and targets (sequences, longest), filled up with tokens whose targets do not count."""
    ids, wanted = np.zeros((len(lengths), max(lengths)), int), np.full((len(lengths), max(lengths)), IGNORE)
    for row, (first, last) in enumerate(itertools.pairwise(np.cumsum([0, *lengths]))):
        ids[row, : last - first], wanted[row, : last - first] = tokens[first:last], targets[first:last]
    return ids, wanted


@every_family
@settings(max_examples=8)
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(0, CONTEXT), min_size=1, max_size=5).filter(any))
def test_packed_logits_are_those_of_padded_sequences(family: str, seed: int, lengths: list[int]) -> None:
    model, (tokens, targets) = MODELS[family], drawn(seed, lengths)
    model.eval()
    packed = model(tokens, layout=Layout.packed(lengths)).data
    rows = model(padded(lengths, tokens, targets)[0]).data
    model.train()
    assert packed.shape == (len(tokens), VOCAB)
    np.testing.assert_allclose(
        packed, np.concatenate([row[:n] for row, n in zip(rows, lengths, strict=True)]), atol=1e-9
    )


@every_family
@settings(max_examples=8)
@given(seed=st.integers(0, 99), lengths=st.permutations([1, 4, 9, 2]))
def test_the_order_of_packed_sequences_does_not_matter(family: str, seed: int, lengths: list[int]) -> None:
    model = MODELS[family]
    texts = {length: drawn(seed + length, [length]) for length in lengths}
    losses = []
    for order in (lengths, sorted(lengths)):
        tokens, targets = (np.concatenate([texts[length][part] for length in order]) for part in range(2))
        losses.append(learned(model, (tokens, targets, Layout.packed(order), 1.0)))
    assert_same(*losses)


@every_family
def test_no_sequences_and_empty_ones_give_no_logits_and_a_loss_of_zero(family: str) -> None:
    model, none = build(family), np.zeros(0, int)
    for lengths in ([], [0], [0, 0]):
        layout = Layout.packed(lengths)
        assert model(none, layout=layout).shape == (0, VOCAB)
        loss = model.loss(none, none, layout=layout)
        loss.backward()
        assert loss.item() == 0.0


def test_what_does_not_fit_a_layout_is_refused() -> None:
    model, ids = build("vidya-v2"), np.zeros(5, int)
    with pytest.raises(ShapeError, match=r"a layout of 4 rows needs as many tokens \(rows,\), not \(5,\)"):
        model(ids, layout=Layout.packed([3, 1]))
    with pytest.raises(ShapeError, match=r"a layout of 5 rows needs as many tokens \(rows,\), not \(1, 5\)"):
        model.loss(ids[None], ids[None], layout=Layout.packed([3, 2]))
    with pytest.raises(ShapeError, match=r"tokens \(5,\), targets \(4,\)"):
        model.loss(ids, ids[:4], layout=Layout.packed([3, 2]))
    with pytest.raises(InputError, match=f"{CONTEXT + 1} tokens are more than the model's context of {CONTEXT}"):
        model.loss(np.zeros(CONTEXT + 3, int), np.zeros(CONTEXT + 3, int), layout=Layout.packed([2, CONTEXT + 1]))
    with pytest.raises(InputError, match="the cache holds 1 sequences, but got tokens of 2"):
        model(ids, cache=model.new_cache(1), layout=Layout.packed([5, 0]))
    with pytest.raises(InputError, match=f"{CONTEXT + 1} tokens are more than the model's context of {CONTEXT}"):
        model(np.zeros(CONTEXT + 3, int), cache=model.new_cache(2, 99), layout=Layout.packed([2, CONTEXT + 1]))
