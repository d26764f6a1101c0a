r"""Objectives: the losses that teach a model by rewards or by preferences.

Each is a function of the log-probabilities $\ln p_t$ of the tokens of some answers, which follow each other; answer i
has the tokens ``offsets[i]:offsets[i + 1]``, including the one that ends it. `token_weights` differentiates it: the
model needs only the gradient with respect to each log-probability, as the weight of the loss of that token. So a step
of any objective is a step of the same loss.

Shapes: log_probs (tokens,) as a Tensor of float64, offsets (answers + 1,), rewards (answers,) -> ().
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.typing import Array

CLIP = 0.2
KL = 0.04
BETA = 0.1
CHOSEN = 1.0


def reinforce(log_probs: Tensor, offsets: Array, rewards: Array, group: int) -> Tensor:
    r"""Raise the probability of answers that were better than the others: $-\frac1n \sum_i (R_i - b_i) \ln p(o_i)$.

    The baseline $b_i$ is the mean reward of the other answers to the same question. It does not depend on answer i, so
    the gradient is still, on average, that of the expected reward; without it every rewarded answer would be raised,
    and the noise would be larger.
    Source: Williams 1992, "Simple statistical gradient-following algorithms", eq. 11; the baseline: Kool et al. 2019,
    "Buy 4 REINFORCE samples, get a baseline for free!".
    """
    of_question = rewards.reshape(-1, group)
    others = (of_question.sum(axis=1, keepdims=True) - of_question) / max(group - 1, 1)
    answers = ops.sum_sequences(log_probs, offsets=offsets)
    return -(answers * (of_question - others).reshape(-1)).mean()


def best_of_n(log_probs: Tensor, offsets: Array, rewards: Array, group: int) -> Tensor:
    r"""Cross-entropy on each question's best answer: $-\frac{1}{|o|} \sum_{t \in o} \ln p_t$.

    Of equally good answers the first counts. A question whose answers are all equally good teaches nothing.
    Source: Anthony et al. 2017, "Thinking fast and slow with deep learning and tree search" (expert iteration).
    """
    of_question = rewards.reshape(-1, group)
    best = of_question.argmax(axis=1) + group * np.arange(len(of_question))
    chosen = np.zeros(len(rewards))
    chosen[best] = of_question.max(axis=1) > of_question.min(axis=1)
    tokens = np.repeat(chosen, np.diff(offsets))
    return -(log_probs * tokens).sum() / max(tokens.sum(), 1)


def grpo(log_probs: Tensor, offsets: Array, rewards: Array, group: int, *, old: Array, reference: Array) -> Tensor:
    r"""Raise answers that are better than their group, within bounds, and stay near a frozen reference model.

    $-\frac1n \sum_i \frac1{|o_i|} \sum_{t \in o_i} (\min(r_t A_i, c_t A_i) - \beta D_t)$ with the advantage
    $A_i = (R_i - \bar R) / \sigma_R$ within the group, the ratio $r_t = p_t / p_t^{old}$ to the model that drew the
    answers, $c_t$, which is $r_t$ clipped to $[1 - \epsilon, 1 + \epsilon]$, and
    $D_t = q_t / p_t - \ln(q_t / p_t) - 1$, an estimate of the Kullback-Leibler divergence from the reference q that is
    never negative. A group of equal rewards has no advantage. `old` and `reference` (tokens,) are log-probabilities.
    Source: Shao et al. 2024, "DeepSeekMath", arXiv 2402.03300, eq. 3 and 4.
    """
    of_question = rewards.reshape(-1, group)
    differs = np.ptp(of_question, axis=1, keepdims=True) > 0  # the mean of equal rewards may be rounded
    centred = of_question - of_question.mean(axis=1, keepdims=True)
    spread = of_question.std(axis=1, keepdims=True)
    advantages = np.where(differs, centred / np.where(differs, spread, 1), 0).reshape(-1)
    lengths = np.diff(offsets)
    by_token, share = np.repeat(advantages, lengths), np.repeat(1 / (lengths * len(lengths)), lengths)
    ratio = ops.exp(log_probs - old)
    clipped = ops.minimum(ops.maximum(ratio, np.float64(1 - CLIP)), np.float64(1 + CLIP))
    gain = ops.minimum(ratio * by_token, clipped * by_token)
    difference = reference - log_probs
    divergence = ops.exp(difference) - difference - 1
    return -((gain - KL * divergence) * share).sum()


def dpo(log_probs: Tensor, offsets: Array, *, reference: Array, chosen: float = 0.0) -> Tensor:
    r"""Raise chosen answers above rejected ones, relative to a frozen reference: $-\frac1n \sum \ln \sigma(\beta m)$.

    The answers are pairs, the chosen one first, and the margin of a pair is
    $m = \ln \frac{p(chosen)}{q(chosen)} - \ln \frac{p(rejected)}{q(rejected)}$. `reference` (tokens,) are the
    log-probabilities under the reference q. If they were taken from the model that learns, every margin would be 0, and
    nothing would keep the model near what it was.
    The margin also grows when both answers become less likely, the rejected one faster, and that is what happens where
    they begin alike. So $-\frac{\alpha}{|c|} \ln p(c)$ of each chosen answer c is added, with $\alpha$ = `chosen`.
    Sources: Rafailov et al. 2023, "Direct preference optimization", arXiv 2305.18290, eq. 7; Pang et al. 2024,
    "Iterative reasoning preference optimization", arXiv 2404.19733, eq. 1, for the likelihood of chosen answers.
    """
    raised = ops.sum_sequences(log_probs - reference, offsets=offsets)
    margins = (raised[0::2] - raised[1::2]) * BETA
    zeros = np.zeros(margins.shape)
    loss = ops.logsumexp(ops.stack(zeros, -margins), axis=0).mean()  # -ln sigmoid(m) = ln(1 + exp(-m))
    lengths = np.diff(offsets)
    of_chosen = np.where(np.arange(len(lengths)) % 2 == 0, chosen / (lengths * margins.size), 0.0)
    return loss - (log_probs * np.repeat(of_chosen, lengths)).sum()


def token_weights(objective: Callable[[Tensor], Tensor], log_probs: Array) -> Array:
    r"""Return the weight of the loss of each token, $-\partial L / \partial \ln p_t$: (tokens,) -> (tokens,).

    The loss of a token is $-\ln p_t$, hence the sign. A negative weight lowers the probability of its token.
    """
    leaf = Tensor(np.asarray(log_probs, np.float64), requires_grad=True)
    objective(leaf).backward()
    assert leaf.grad is not None
    return -np.asarray(leaf.grad)
