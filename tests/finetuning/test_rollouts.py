"""Rollouts: drawn from the distribution whose gradient is taken, with their end; and a reward that rises."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import models
from minigrad.constants import IGNORE
from minigrad.finetuning.objectives import reinforce, token_weights
from minigrad.finetuning.rollouts import answer_log_probabilities, roll_out
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
from tests.small_runs import TINY

PROMPTS, ENDS = [[5, 6, 7], [8], [9, 10]], {0, 1}


@pytest.fixture
def model() -> LanguageModel:
    shape = {name: getattr(TINY, name) for name in ("num_layers", "width", "num_heads", "num_kv_heads", "head_dim")}
    return models.build("vidya-v2", vocab_size=20, feed_forward=64, dropout=0.0, **shape)


def test_answers_are_drawn_from_the_distribution_whose_gradient_is_taken(model: LanguageModel) -> None:
    rolled = roll_out(model, PROMPTS, group=4, tokens=6, ends=ENDS, seed=0, step=3)
    assert [len(rolled.answers), rolled.offsets[-1]] == [12, len(rolled.log_probs)]
    np.testing.assert_allclose(answer_log_probabilities(model, rolled), rolled.log_probs, atol=1e-5)


def test_an_answer_ends_with_its_end_token_or_with_the_room(model: LanguageModel) -> None:
    answers = roll_out(model, PROMPTS, group=8, tokens=6, ends=ENDS, seed=0, step=0).answers
    ended = [answer for answer in answers if answer[-1] in ENDS]
    assert ended
    assert all(len(answer) == 6 for answer in answers if answer not in ended)
    assert not any(token in ENDS for answer in answers for token in answer[:-1])


def test_the_draws_are_a_function_of_seed_and_step(model: LanguageModel) -> None:
    def drawn(seed: int, step: int) -> list[list[int]]:
        return roll_out(model, PROMPTS, group=4, tokens=6, ends=ENDS, seed=seed, step=step).answers

    assert drawn(0, 3) == drawn(0, 3)
    assert len({str(drawn(*each)) for each in ((0, 3), (0, 4), (1, 3))}) == 3
    equal = roll_out(model, [[5, 6]] * 2, group=4, tokens=6, ends=ENDS, seed=0, step=0).answers
    assert equal[:4] != equal[4:]  # the answers to each question have draws of their own


def test_the_batch_is_the_weighted_loss_of_the_answers_alone(model: LanguageModel) -> None:
    rolled = roll_out(model, PROMPTS, group=2, tokens=4, ends=ENDS, seed=0, step=0)
    weights = np.cos(np.arange(len(rolled.log_probs)))
    batch = rolled.batch(weights)
    assert batch.targets[batch.targets != IGNORE].tolist() == [token for answer in rolled.answers for token in answer]
    loss = model.loss(batch.tokens, batch.targets, layout=batch.layout, weights=batch.weights).item()
    assert loss == pytest.approx(-(weights * rolled.log_probs).sum(), rel=1e-4)


def test_a_reward_rises(model: LanguageModel) -> None:
    """An even first token is right: half of the tokens are even, and soon nearly all of those that are drawn."""
    optimizer, rewards = AdamW(model.parameters()), []
    for step in range(30):
        rolled = roll_out(model, PROMPTS, group=8, tokens=2, ends=ENDS, seed=0, step=step)
        right = np.array([float(answer[0] % 2 == 0) for answer in rolled.answers])
        objective = functools.partial(reinforce, offsets=rolled.offsets, rewards=right, group=8)
        batch = rolled.batch(token_weights(objective, rolled.log_probs))
        model.loss(batch.tokens, batch.targets, layout=batch.layout, weights=batch.weights).backward()
        optimizer.step(0.01)
        optimizer.zero_grad()
        rewards.append(right.mean())
    assert np.mean(rewards[:3]) < 0.7
    assert np.mean(rewards[-3:]) > 0.9
