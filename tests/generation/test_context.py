"""What the model has read: new tokens only, chosen texts, a length to go back to, and the end of the context."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import no_grad
from minigrad.adaptive.context import AdaptiveContext, AdaptiveView
from minigrad.adaptive.signals import measure
from minigrad.generation import context as module
from minigrad.generation.context import Context
from minigrad.programs.decoder import Decoder
from tests.models import tiny

LIMIT = tiny.CONTEXT


def fresh(model, text, start=0):
    with no_grad():
        return model(np.array([text[start:]])).data[0, -1]


@pytest.mark.parametrize("family", tiny.TINY)
@given(seed=st.integers(0, 99), length=st.integers(1, 5), data=st.data())
@settings(max_examples=8)
def test_texts_that_grow_are_chosen_and_cut_are_read_as_if_they_were_new(family, seed, length, data):
    model = tiny.build(family, "float64").eval()  # in float32, rounding alone can grow beyond 1e-5 in these models
    texts = [tiny.tokens(seed + each, 1, size)[0].tolist() for each, size in enumerate((length, 1, 6 - length))]
    context = Context(Decoder(model), texts, LIMIT)
    for step in range(5):  # the longest text has at most 5 tokens, gets at most 4 in a step, and may then try 3 more
        found = context.logits()
        for text, row in zip((row.tokens for row in context.rows), found, strict=True):
            wanted = fresh(model, text)
            assert np.abs(row[-1] - wanted).max() <= tiny.TOLERANCE["float64"] * max(1, np.abs(wanted).max())
        action = data.draw(st.sampled_from(["select", "cut", "grow"]))
        if action == "select":
            context.select(data.draw(st.lists(st.integers(0, len(context.rows) - 1), min_size=1, max_size=3)))
        if action == "cut":
            context.mark()
            kept = np.array([len(row.tokens) for row in context.rows])
            for new in range(3):
                context.append([(seed + step + new) % tiny.VOCAB] * len(context.rows))
            context.logits(last=2)
            context.truncate(kept + data.draw(st.integers(0, 3)))
        context.append([(seed + step) % tiny.VOCAB] * len(context.rows))


def test_several_last_positions_are_those_of_single_steps():
    model = tiny.build("vidya-v2").eval()
    context = Context(Decoder(model), [[1, 2, 3]], LIMIT)
    context.logits()
    for token in (4, 5):
        context.append([token])
    found = context.logits(last=2)
    assert found.shape == (1, 2, tiny.VOCAB)
    np.testing.assert_allclose(found[0, 0], fresh(model, [1, 2, 3, 4]), atol=1e-5)
    np.testing.assert_allclose(found[0, 1], fresh(model, [1, 2, 3, 4, 5]), atol=1e-5)


def test_a_text_beyond_the_context_is_read_from_its_last_half():
    model = tiny.build("vidya-v2").eval()
    text = tiny.tokens(0, 1, LIMIT + 3)[0].tolist()
    context = Context(Decoder(model), [text], 100)
    assert context.room == 0
    np.testing.assert_allclose(context.logits()[0, -1], fresh(model, text, 3), atol=1e-5)
    context.append([1])
    np.testing.assert_allclose(context.logits()[0, -1], fresh(model, [*text, 1], len(text) + 1 - LIMIT // 2), atol=1e-5)
    assert context.room == LIMIT - LIMIT // 2


@pytest.mark.parametrize("family", tiny.TINY)
def test_each_text_outgrows_the_context_by_itself(family):
    model = tiny.build(family).eval()
    texts = [tiny.tokens(length, 1, length)[0].tolist() for length in (LIMIT - 4, 3, LIMIT - 2, LIMIT + 5)]
    context, starts = Context(Decoder(model), texts, 100), [0, 0, 0, 5]
    for step in range(9):
        for number, (row, read) in enumerate(zip(context.logits(), context.rows, strict=True)):
            text = read.tokens
            if len(text) - starts[number] > LIMIT:
                starts[number] = len(text) - LIMIT // 2
            wanted = fresh(model, text, starts[number])
            assert np.abs(row[-1] - wanted).max() <= 1e-5 * max(1, np.abs(wanted).max())
        if step == 5:  # one ends, and stays in the cache without being read
            context.select([0, 1, 3])
            starts = [starts[0], starts[1], starts[3]]
        context.append([step] * len(context.rows))


def test_long_texts_are_read_in_parts(monkeypatch):
    model = tiny.build("wiola").eval()
    texts = [tiny.tokens(length, 1, length)[0].tolist() for length in (20, 2, 9)]
    decoder = Decoder(model)  # which traces a pass
    whole, sizes, hidden = Context(decoder, texts, 100).logits(), [], model.hidden

    def watched(tokens, layout, cache=None):
        sizes.append(layout.lengths.tolist())
        return hidden(tokens, layout, cache)

    monkeypatch.setattr(module, "_MOST_ROWS", 12)
    monkeypatch.setattr(model, "hidden", watched)
    np.testing.assert_allclose(Context(decoder, texts, 100).logits(), whole, atol=1e-5)
    assert sizes == [[4, 1, 4], [6, 0, 4], [9, 0, 0]]  # the last token of each is a step of the decoder


def test_texts_that_end_one_by_one_are_seldom_copied():
    model = tiny.build("gpt2").eval()
    context, copied = Context(Decoder(model), [[1]] * 8, LIMIT), 0
    while len(context.rows) > 1:
        before = context._cache
        context.select(range(1, len(context.rows)))
        copied += context._cache is not before
        context.append([2] * len(context.rows))
        assert context.logits().shape == (len(context.rows), 1, tiny.VOCAB)
    assert copied == 3


@pytest.mark.parametrize("family", tiny.TINY)
def test_an_adaptive_context_sees_the_newest_part_only(monkeypatch, family):
    monkeypatch.setattr("minigrad.adaptive.context.TOKENS_BETWEEN", 3)
    # In float64: after many steps of these large weights, float32 may round to more than a hundred thousandth.
    model, adaptive = tiny.build(family, "float64").eval(), AdaptiveContext.up_to(LIMIT)
    text, start, views = [1, 2, 3], 0, []
    context = Context(Decoder(model), [text], 200, [AdaptiveView(adaptive, len(text))])
    needs = iter([-1.0] * 6 + [1.0] * 99)
    monkeypatch.setattr(
        "minigrad.adaptive.context.measure",
        lambda *given: measure(*given)._replace(need=next(needs), diversity_gain=-1.0, tokens=1_024),
    )
    for token in tiny.tokens(1, 1, 70)[0].tolist():
        found = context.logits()[0, -1]
        if len(text) - start > adaptive.current:  # it begins again from the newest half
            start = len(text) - adaptive.current // 2
        wanted = fresh(model, text, start)
        assert np.abs(found - wanted).max() <= 1e-10 * max(1, np.abs(wanted).max())
        views.append(len(text) - start)
        text = [*text, token]
        context.append([token])
    places = [each.place for each in adaptive.decisions]
    assert places[0] == 18  # three quarters of the context
    assert min(after - before for before, after in itertools.pairwise(places)) >= 3
    chosen = [each.context for each in adaptive.decisions]
    assert min(chosen) < LIMIT == chosen[-1] == max(views)
