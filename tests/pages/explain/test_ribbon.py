"""The ribbon and the alternatives show the numbers of the predictions."""

from __future__ import annotations

import re

import numpy as np

from minigrad.pages.explain.prediction import predictions
from minigrad.pages.explain.ribbon import choices, ribbon
from minigrad.pages.explain.tokens import TokenNames


def found_for(tokens):
    return predictions(np.random.default_rng(1).normal(0, 2, (len(tokens), 261)), tokens)


def test_each_token_has_its_probability_and_bars(tok):
    tokens = tok.encode("a\nb")
    found = found_for(tokens)
    text = ribbon([(5, None), *zip(tokens, found, strict=True)], TokenNames(tok), 261)
    assert text.count("<span") == 4
    assert text.count("<small>") == 4
    assert "↵<small>" in text
    assert text.count("<br>") == 1
    for each in found:
        assert f"--e:{each.entropy / np.log2(261):.2f}" in text
        assert f"rank {each.rank}, entropy {each.entropy:.1f} bits" in text


def test_a_vocabulary_of_one_token_leaves_nothing_open(tok):
    assert "--s:0.00;--e:0.00" in ribbon([(0, predictions(np.zeros((1, 1)), [0])[0])], TokenNames(tok), 1)


def test_the_chosen_token_is_marked_among_the_alternatives(tok):
    tokens = tok.encode("ab")
    found = found_for(tokens)
    best = found[0].likely[0][0]
    likely = predictions(np.random.default_rng(1).normal(0, 2, (1, 261)), [best])
    text = choices([(7, best, likely[0]), (8, tokens[1], found[1])], TokenNames(tok))
    assert text.count("<li>") == 2
    assert text.count("✓") == 1
    assert "<span class=place>7</span>" in text
    assert re.findall(r"rank (\d+); entropy", text) == ["1", str(found[1].rank)]
