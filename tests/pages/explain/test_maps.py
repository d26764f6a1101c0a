"""The maps show the newest tokens, and say in words what a head does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from minigrad.pages.explain import maps
from minigrad.pages.explain.attention import ATTENTIONS, attention_weights
from minigrad.pages.explain.trace import trace


def drawn(model, text):
    return maps.attention_maps(trace(model, text, ATTENTIONS).operations, len(text))


def test_every_layer_and_head_has_a_map_with_words_and_axes(model, text):
    page, count = drawn(model, text)
    assert count == len(text)
    assert re.findall(r"<h3>(.*?)</h3>", page) == [f"Layer {n + 1}" for n in range(model.config.num_layers)]
    heads = re.findall(r'aria-label="Attention, layer (\d), head (\d)', page)
    assert len(heads) == model.config.num_layers * model.config.num_heads
    assert page.count("<svg") == page.count("is read</text>") == page.count("data:image/png;base64,")


def test_the_words_under_a_map_are_its_averages(small, text):
    model = small("vidya-v2")
    weights = attention_weights(trace(model, text, ATTENTIONS).operations[0])[:, 0]
    itself = np.mean([weights[t, t] for t in range(1, len(text))])
    before = np.mean([weights[t, t - 1] for t in range(1, len(text))])
    caption = re.findall(r"<b>head 1</b> (.*?)</figcaption>", drawn(model, text)[0])[0]
    assert f"itself {maps.percent(itself)}" in caption
    assert f"the one before {maps.percent(before)}" in caption
    assert f"the first {maps.percent(weights[1:, 0].mean())}" in caption


def test_a_text_of_one_or_two_tokens(small, text):
    model = small("vidya-v2")
    assert "itself 100%" in drawn(model, text[:1])[0]
    two, _ = drawn(model, text[:2])
    assert "the one before" in two
    assert "the first" not in two


def test_a_pattern_is_described_and_what_it_sees_is_drawn(small, text):
    page, _ = drawn(small("vsla"), text)
    assert page.count("<figcaption>the tokens that are seen") == 6
    assert "Pattern local: a token attends to the newest 8 tokens only." in page
    seen = sum(min(place + 1, 8) for place in range(len(text))) / len(text)
    assert f"On average a token sees {seen:.1f} of the {(len(text) + 1) / 2:.1f} tokens up to itself." in page


def test_layers_that_join_tokens_say_so(small, text):
    for variant in ("first", "kv_only"):
        page, _ = drawn(small("wiola", atm=variant), text)
        assert page.count("Joined tokens share a row or a column here") == 2


def test_a_long_text_is_shown_by_its_newest_tokens(small, text, monkeypatch):
    monkeypatch.setattr(maps, "MOST_SIDE", 10)
    page, count = drawn(small("vidya-v2"), text)
    assert count == 10
    ticks = {int(tick) for tick in re.findall(r">(\d+)</text>", page)}
    assert min(ticks) >= len(text) - 10
    assert max(ticks) < len(text)


def test_the_legend_names_its_weights():
    assert re.findall(r">([\d.]+%)<", maps.legend()) == ["0%", "1.0%", "10%", "30%", "100%"]


@pytest.mark.parametrize("num_maps", [1, 18, 300, 5000])
def test_all_maps_together_stay_small(num_maps):
    assert num_maps * maps.largest_side(num_maps) ** 2 <= maps.MOST_PIXELS


def test_several_attentions_of_a_layer_are_numbered(small, text):
    page, _ = drawn(small("vsla", patterns="learned", num_layers=1), text)
    headings = re.findall(r"<h3>(.*?)</h3>", page)
    assert headings == [f"Layer 1, attention {n + 1} of {len(headings)}" for n in range(len(headings))]
    assert len(headings) > 1
