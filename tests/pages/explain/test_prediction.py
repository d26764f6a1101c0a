"""Predictions are the model's own distribution."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from minigrad.pages.explain.prediction import choices, predictions, ribbon
from minigrad.pages.explain.tokens import TokenNames


def test_probability_rank_entropy_and_alternatives_are_those_of_the_softmax():
    logits = np.random.default_rng(0).normal(0, 3, (4, 50)).astype(np.float32)
    tokens = [3, 49, int(logits[2].argmax()), int(logits[3].argmin())]
    p = np.exp(logits.astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    for row, token, found in zip(p, tokens, predictions(logits, tokens, count=7), strict=True):
        assert found.token == token
        assert found.probability == pytest.approx(row[token])
        assert found.rank == 1 + (row > row[token]).sum()
        assert found.entropy == pytest.approx(-(row * np.log2(row)).sum())
        assert found.surprise == pytest.approx(-math.log2(row[token]))
        order = np.argsort(-row)[:7]
        assert [each for each, _ in found.likely] == order.tolist()
        np.testing.assert_allclose([chance for _, chance in found.likely], row[order])


def test_a_certain_token_and_an_impossible_one():
    certain, impossible = predictions(np.array([[1000.0, 0.0], [1000.0, 0.0]]), [0, 1])
    assert (certain.probability, certain.entropy, certain.surprise, certain.rank) == (1.0, 0.0, 0.0, 1)
    assert (impossible.probability, impossible.surprise, impossible.rank) == (0.0, math.inf, 2)


def test_the_first_of_the_alternatives_has_rank_one_also_among_equals():
    (found,) = predictions(np.zeros((1, 4)), [2], count=3)
    assert found.likely[found.rank - 1][0] == 2


def test_a_vocabulary_smaller_than_the_alternatives():
    (found,) = predictions(np.zeros((1, 2)), [1])
    assert [each for each, _ in found.likely] == [0, 1]


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
