"""The share of what a text repeats, and the texts that a model writes for the measurement."""

from __future__ import annotations

import numpy as np

import models
from benchmarks.repetition import RUN, repeated, written
from minigrad.generation.settings import Sampling


def test_runs_of_four_tokens_that_come_again_are_counted_in_each_text_alone() -> None:
    assert repeated([[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]) == 0
    assert repeated([[1, 2, 3, 4, 1, 2, 3, 4]]) == 1 / 5
    assert repeated([[7] * 10]) == 6 / 7
    assert repeated([[1], [2] * RUN]) == 0


def test_a_penalty_lets_a_model_repeat_itself_less_at_the_cost_of_likely_tokens() -> None:
    model = models.build("vidya-v2", "nano", vocab_size=50, num_layers=1, init_std=0.5, context_length=64)
    prompts = [[1, 2], [3, 4, 5]]
    plain, penalised = (
        written(model, prompts, [0], Sampling(temperature=0, tokens=40, alternatives=0, frequency_penalty=penalty))
        for penalty in (0.0, 2.0)
    )
    assert repeated(penalised.texts) < repeated(plain.texts)
    assert penalised.nats > plain.nats
    drawn = written(model, prompts, [0], Sampling(temperature=1, top_p=None, tokens=40, alternatives=0))
    assert all(0 < len(text) <= 40 for text in drawn.texts)
    assert 0 < drawn.nats < 2 * np.log(50)
