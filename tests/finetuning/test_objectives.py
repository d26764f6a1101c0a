"""Objectives: known values, gradients, and two published faults, which these checks would have caught.

The faults are those of the teaching code of Vidya (rolandnsharp/vidya at 045490d, facts only): the sign of a rejected
answer was written into the gradient of the loss, which backward() then overwrote with 1; and the reference of DPO was
taken from the model that learns.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import models
from minigrad import Tensor, ops
from minigrad.constants import IGNORE
from minigrad.finetuning.objectives import BETA, CLIP, KL, best_of_n, dpo, grpo, reinforce, token_weights
from minigrad.optim import SGD
from tests.small_runs import TINY

OFFSETS = np.array([0, 3, 4, 6, 8])  # four answers, two to each of two questions
REWARDS = np.array([1.0, 0.0, 0.25, 0.75])
RNG = np.random.default_rng(0)
LOG_PROBS, REFERENCE = -RNG.random(8) - 0.1, -RNG.random(8) - 0.1
OLD = LOG_PROBS + np.array([0.05, -0.1, 0.3, -0.3, 0.1, 0.3, 0.05, -0.3])  # some ratios are clipped

OBJECTIVES: dict[str, Callable[[Tensor], Tensor]] = {
    "reinforce": functools.partial(reinforce, offsets=OFFSETS, rewards=REWARDS, group=2),
    "best_of_n": functools.partial(best_of_n, offsets=OFFSETS, rewards=REWARDS, group=2),
    "grpo": functools.partial(grpo, offsets=OFFSETS, rewards=REWARDS, group=2, old=OLD, reference=REFERENCE),
    "dpo": functools.partial(dpo, offsets=OFFSETS, reference=REFERENCE, chosen=0.5),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_weighted_loss_has_the_gradient_of_the_objective(name: str) -> None:
    """The weights of the tokens turn any objective into the one loss that the model has."""
    rng = np.random.default_rng(1)
    rows, matrix, targets = rng.normal(size=(8, 3)), rng.normal(size=(5, 3)), rng.integers(0, 5, 8)
    whole, weighted = (Tensor(matrix.copy(), requires_grad=True) for _ in range(2))
    log_probs = -ops.linear_losses(rows, whole, targets)
    OBJECTIVES[name](log_probs).backward()
    weights = token_weights(OBJECTIVES[name], log_probs.data)
    ops.linear_cross_entropy(rows, weighted, targets, 8 * weights).backward()
    np.testing.assert_allclose(np.asarray(weighted.grad), np.asarray(whole.grad), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("objective", "of_answers"),
    [
        # Each reward is compared with the mean of the other three: 1 with 1/6, 0 with 1/2, 1/2 with 1/3.
        (reinforce, [5 / 6 / 4, -1 / 2 / 4, -1 / 2 / 4, 1 / 6 / 4]),
        (best_of_n, [1 / 3, 0, 0, 0]),  # the first answer has three tokens
        # The mean is 3/8 and the variance 11/64. Each advantage is shared by the tokens of its answer.
        (
            functools.partial(grpo, old=LOG_PROBS, reference=LOG_PROBS),
            [5 / 11**0.5 / 3 / 4, -3 / 11**0.5 / 1 / 4, -3 / 11**0.5 / 2 / 4, 1 / 11**0.5 / 2 / 4],
        ),
    ],
)
def test_four_answers_to_a_question_have_the_weights_computed_by_hand(objective: Any, of_answers: list[float]) -> None:
    """Of four unequal rewards, the standard deviation is neither half their range nor their mean deviation."""
    rewards = np.array([1.0, 0.0, 0.0, 0.5])
    weights = token_weights(functools.partial(objective, offsets=OFFSETS, rewards=rewards, group=4), LOG_PROBS)
    np.testing.assert_allclose(weights, np.repeat(of_answers, np.diff(OFFSETS)), atol=1e-12)


def test_reinforce_compares_each_answer_with_the_others_to_its_question() -> None:
    sums = np.add.reduceat(LOG_PROBS, OFFSETS[:-1])
    wanted = -(sums[0] - sums[1] - 0.5 * sums[2] + 0.5 * sums[3]) / 4
    assert OBJECTIVES["reinforce"](Tensor(LOG_PROBS)).item() == pytest.approx(wanted)
    equal = functools.partial(reinforce, offsets=OFFSETS, rewards=np.ones(4), group=2)
    assert not token_weights(equal, LOG_PROBS).any()


def test_reinforce_has_on_average_the_gradient_of_the_expected_reward() -> None:
    """Every pair of answers of one token, with its probability: no sampling."""
    logits, rewards = np.array([0.3, -0.2, 0.5]), np.array([1.0, 0.0, 0.4])
    p = np.exp(logits) / np.exp(logits).sum()
    total = np.zeros(3)
    for a, b in itertools.product(range(3), repeat=2):
        objective = functools.partial(reinforce, offsets=np.arange(3), rewards=rewards[[a, b]], group=2)
        for token, weight in zip((a, b), token_weights(objective, np.log(p[[a, b]])), strict=True):
            total += p[a] * p[b] * weight * (p - np.eye(3)[token])  # weight times the gradient of -ln p(token)
    np.testing.assert_allclose(-total, p * (rewards - p @ rewards), atol=1e-12)


def test_best_of_n_learns_the_first_of_the_best_and_nothing_of_equals() -> None:
    weights = token_weights(OBJECTIVES["best_of_n"], LOG_PROBS)
    np.testing.assert_allclose(weights, np.array([1, 1, 1, 0, 0, 0, 1, 1]) / 5)
    equal = functools.partial(best_of_n, offsets=OFFSETS, rewards=np.array([1.0, 1.0, 0.0, 0.0]), group=2)
    assert not token_weights(equal, LOG_PROBS).any()


def grpo_weights(rewards: Any, old: Any, reference: Any) -> Any:
    objective = functools.partial(
        grpo, offsets=OFFSETS, rewards=np.array(rewards), group=2, old=old, reference=reference
    )
    return token_weights(objective, LOG_PROBS)


def test_grpo_on_its_own_answers_weighs_each_token_by_the_advantage_of_its_answer() -> None:
    weights = grpo_weights(REWARDS, LOG_PROBS, LOG_PROBS)
    advantages = np.repeat([1.0, -1.0, -1.0, 1.0], [3, 1, 2, 2])  # of two rewards, one is a deviation above the mean
    np.testing.assert_allclose(weights, advantages / np.repeat([3, 1, 2, 2], [3, 1, 2, 2]) / 4, atol=1e-12)
    assert not grpo_weights([1, 1, 0, 0], LOG_PROBS, LOG_PROBS).any()  # equal rewards: no advantage
    objective = functools.partial(
        grpo, offsets=np.array([0, 1, 2, 3]), rewards=np.full(3, 0.1), group=3, old=np.zeros(3), reference=np.zeros(3)
    )
    assert not token_weights(objective, np.zeros(3)).any()  # although the mean of 0.1, 0.1 and 0.1 is not 0.1


@pytest.mark.parametrize(
    ("ratio", "reward", "moves"), [(1.5, 1.0, False), (1.5, 0.0, True), (0.5, 1.0, True), (0.5, 0.0, False)]
)
def test_grpo_moves_a_token_no_further_than_the_clip(ratio: float, reward: float, moves: bool) -> None:
    assert abs(ratio - 1) > CLIP
    old = LOG_PROBS - np.log(ratio)
    weights = grpo_weights([reward, 1 - reward, 0, 0], old, LOG_PROBS)
    assert weights[:3].any() == moves


def test_grpo_is_drawn_to_its_reference() -> None:
    weights = grpo_weights([0, 0, 0, 0], LOG_PROBS, REFERENCE)
    share = 1 / np.repeat([3, 1, 2, 2], [3, 1, 2, 2]) / 4
    np.testing.assert_allclose(weights, KL * (np.exp(REFERENCE - LOG_PROBS) - 1) * share)


def test_dpo_begins_at_ln_2_and_moves_a_pair_apart() -> None:
    begin = functools.partial(dpo, offsets=OFFSETS, reference=LOG_PROBS)
    assert begin(Tensor(LOG_PROBS)).item() == pytest.approx(np.log(2))
    signs = np.array([1, 1, 1, -1, 1, 1, -1, -1])
    np.testing.assert_allclose(token_weights(begin, LOG_PROBS), signs * BETA / 2 / 2)
    far = functools.partial(dpo, offsets=OFFSETS, reference=np.where(signs > 0, 2e4, -2e4))
    assert np.isfinite(far(Tensor(LOG_PROBS)).item())


def test_dpo_can_hold_the_likelihood_of_chosen_answers() -> None:
    """Their tokens get a share besides, the same sum for each answer; without a margin nothing else would."""
    plain, held = (functools.partial(dpo, offsets=OFFSETS, reference=LOG_PROBS, chosen=each) for each in (0.0, 2.0))
    added = token_weights(held, LOG_PROBS) - token_weights(plain, LOG_PROBS)
    np.testing.assert_allclose(added, np.array([1 / 3, 1 / 3, 1 / 3, 0, 1 / 2, 1 / 2, 0, 0]) * 2 / 2)
    likely = (LOG_PROBS[:3].mean() + LOG_PROBS[4:6].mean()) / 2
    assert held(Tensor(LOG_PROBS)).item() == pytest.approx(np.log(2) - 2 * likely)


def test_a_reference_taken_from_the_model_that_learns_would_be_caught() -> None:
    """With such a reference no margin ever differs from 0, and the loss never from ln 2."""
    raised = LOG_PROBS + 0.5 * np.array([1, 1, 1, -1, 1, 1, -1, -1])
    frozen, live = (dpo(Tensor(raised), OFFSETS, reference=each).item() for each in (LOG_PROBS, raised))
    assert frozen < np.log(2) - 0.05
    assert live == pytest.approx(np.log(2))


@pytest.mark.parametrize("overwritten", [False, True])
def test_a_negative_weight_that_is_overwritten_by_1_would_be_caught(overwritten: bool) -> None:
    """A rejected answer must become less likely; with the published fault it becomes more likely."""
    shape = {name: getattr(TINY, name) for name in ("num_layers", "width", "num_heads", "num_kv_heads", "head_dim")}
    model = models.build("vidya-v2", vocab_size=300, feed_forward=64, dropout=0.0, **shape)
    tokens, targets = np.array([[5, 6, 7]]), np.array([[IGNORE, 7, 8]])
    before = -model.losses(tokens, targets).data.sum()
    weight = 1.0 if overwritten else -1.0
    model.loss(tokens, targets, weights=np.full((1, 3), weight)).backward()
    SGD(model.parameters()).step(0.1)
    after = -model.losses(tokens, targets).data.sum()
    assert (after < before) != overwritten
