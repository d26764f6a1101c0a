"""Rollouts: several answers to each question, drawn from the model.

Answers are drawn from the model's own distribution, the softmax of its logits: no temperature, no top-p, no penalty,
no token left out. Only then is the gradient of their log-probabilities that of the expected reward. (Vidya drew with
temperature 0.7, top-k 40 and a penalty, and differentiated the plain softmax: the gradient of something else.) The
token that ends an answer is a part of it, so that stopping is learned like everything else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch
from minigrad.evaluate.losses import predictions
from minigrad.generation.decoding import stream
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.typing import Array


@dataclass(frozen=True)
class Rollouts:
    """Answers to questions, equally many to each, one question after the other."""

    prompts: list[list[int]]
    answers: list[list[int]]
    log_probs: Array  # (tokens,) of all answers, one after the other, when they were drawn

    @property
    def offsets(self) -> Array:
        """The places of the answers among their tokens: answer i has ``offsets[i]:offsets[i + 1]``."""
        return np.cumsum([0, *map(len, self.answers)])

    def batch(self, weights: Array) -> Batch:
        """Return the batch whose loss is the sum over the tokens of the answers of -log p times `weights` (tokens,)."""
        texts = [[*prompt, *answer] for prompt, answer in zip(self.prompts, self.answers, strict=True)]
        layout = Layout.packed([len(text) - 1 for text in texts])
        targets = np.concatenate([np.array(text[1:], np.int32) for text in texts])
        first = np.repeat([len(prompt) - 1 for prompt in self.prompts], layout.lengths)
        targets[layout.positions < first] = IGNORE
        by_row = np.zeros(len(targets), np.float32)
        by_row[targets != IGNORE] = len(weights) * weights  # a loss is the mean over its targets
        tokens = np.concatenate([np.array(text[:-1], np.int32) for text in texts])
        return Batch(tokens, targets, layout, weights=by_row)


def roll_out(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    group: int,
    tokens: int,
    ends: Collection[int],
    seed: int,
    step: int,
) -> Rollouts:
    """Draw `group` answers of at most `tokens` tokens to each prompt, by seed and step; one of `ends` ends it."""
    answers: list[list[int]] = [[] for _ in range(len(prompts) * group)]
    log_probs: list[list[float]] = [[] for _ in answers]
    own = Sampling(temperature=1.0, top_p=None, tokens=tokens, samples=group, seed=seed, alternatives=0)
    first = [(step * len(prompts) + number) * group for number in range(len(prompts))]
    for token in stream(model, prompts, own, end_ids=ends, first_sample=first):
        number = token.sample - first[0]
        answers[number].append(int(token))
        log_probs[number].append(float(token.log_probability or 0.0))
    repeated = [list(prompt) for prompt in prompts for _ in range(group)]
    return Rollouts(repeated, answers, np.concatenate([np.array(each) for each in log_probs]))


def answer_log_probabilities(model: LanguageModel, rollouts: Rollouts) -> Array:
    """Return the log-probabilities of the tokens of all answers, (tokens,); no gradient is computed."""
    batch = rollouts.batch(np.zeros(rollouts.offsets[-1]))
    ((_, losses),) = predictions(model, [batch])
    return np.asarray(-losses[batch.targets != IGNORE], np.float64)
