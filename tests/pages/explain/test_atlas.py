"""The atlas gives the attention of the operations themselves, and its picture says so in colours and words."""

from __future__ import annotations

import re

import numpy as np

import models
from minigrad.pages.explain import atlas
from minigrad.pages.explain.attention import ATTENTIONS, attention_weights
from minigrad.pages.explain.trace import trace
from minigrad.random import generator


def test_the_shares_are_those_of_the_weights(small):
    model = small("vidya-v2")
    found = atlas.head_atlas(model)
    once = generator(0, "atlas").choice(261, 32, replace=False)
    read = [*once, *once]
    (_, second, *_) = trace(model, read, ATTENTIONS).operations
    weights = attention_weights(second)
    for head in range(weights.shape[1]):
        shares = np.zeros(4)
        for place in range(32, 64):
            before = read.index(read[place]) + 1
            shares += [weights[place, head, key] for key in (before, place - 1, place, 0)]
        np.testing.assert_allclose(found[1][head], shares / 32, rtol=1e-5)
    assert list(found) == list(range(6))


def test_layers_that_join_tokens_or_mix_kinds_of_attention_are_left_out(small):
    assert 0 < len(atlas.head_atlas(small("wiola", atm="first"))) < 6
    assert atlas.head_atlas(small("vsla", patterns="learned")) == {}


def test_a_context_that_is_too_short_has_no_atlas():
    assert atlas.head_atlas(models.build("vidya-v2", "nano", vocab_size=8, context_length=5)) == {}


def test_the_picture_has_a_bar_for_each_head_and_names_the_best():
    shares = {0: np.array([[0.1, 0.6, 0.1, 0.2], [0.0, 0.2, 0.5, 0.1]]), 3: np.array([[0.9, 0, 0, 0], [0, 0, 0, 0.9]])}
    picture = atlas.draw_atlas(shares)
    assert "what followed it before: most in layer 4, head 1, 90%" in picture
    assert "the token before it: most in layer 1, head 1, 60%" in picture
    assert re.findall(r">(layer \d)<", picture) == ["layer 1", "layer 4"]
    assert picture.count('fill="none"') == 4
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="16" fill="#', picture)]
    across = (460 - 58) / 2 - 4
    np.testing.assert_allclose(widths, np.concatenate([*shares.values()]).ravel() * across, atol=0.05)
