"""Predictions are the model's own distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minigrad.pages.explain.prediction import predictions


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
