"""Generating text: draw the next token from the model's distribution, append it, repeat."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from minigrad.autograd.graph import no_grad
from minigrad.errors import InputError
from minigrad.generation.settings import GenerateConfig
from minigrad.nn.language_model import LanguageModel
from minigrad.random import generator
from minigrad.typing import Array, Tokenizer


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn. The defaults draw from the model's own distribution."""

    temperature: float = 1.0  # below 1 sharpens the distribution; 0 always takes the most likely token
    top_k: int | None = None  # only the k most likely tokens
    top_p: float | None = None  # only the most likely tokens, up to a total probability of p
    min_p: float | None = None  # only tokens whose probability is at least this fraction of the largest one
    repetition_penalty: float = 1.0  # logits of tokens already in the text are divided by this (CTRL, Keskar 2019)
    frequency_penalty: float = 0.0  # and lowered by this for each time they occurred
    forbidden_ids: Sequence[int] = ()  # tokens that get probability 0

    @classmethod
    def of(cls, settings: GenerateConfig, forbidden_ids: Sequence[int]) -> Sampling:
        """Return the part of the settings that decides how tokens are drawn."""
        names = [field.name for field in dataclasses.fields(cls) if field.name != "forbidden_ids"]
        return cls(**{name: getattr(settings, name) for name in names}, forbidden_ids=forbidden_ids)

    def probabilities(self, logits: Array, counts: Array) -> Array:
        """Return the distribution (V,) to draw from, given the logits (V,) and how often each token occurred.

        Raises InputError if the logits are not finite.
        """
        adjusted = logits.astype(np.float64)
        if not np.isfinite(adjusted).all():
            raise InputError("the model's logits are not finite: its weights are damaged, or it diverged in training")
        seen = counts > 0
        adjusted[seen] = np.where(
            adjusted[seen] > 0, adjusted[seen] / self.repetition_penalty, adjusted[seen] * self.repetition_penalty
        )
        adjusted -= self.frequency_penalty * counts
        adjusted[list(self.forbidden_ids)] = -np.inf
        if self.temperature == 0:
            return np.eye(1, len(adjusted), int(adjusted.argmax()))[0]
        with np.errstate(over="ignore"):  # a tiny temperature gives all but the most likely exp(-inf) = 0
            adjusted = (adjusted - adjusted.max()) / self.temperature
        probabilities = np.exp(adjusted)
        if self.min_p is not None:
            probabilities[probabilities < self.min_p] = 0
        order = np.argsort(-adjusted, kind="stable")  # different logits may round to equal probabilities
        if self.top_k is not None:
            probabilities[order[self.top_k :]] = 0
        probabilities /= probabilities.sum()
        if self.top_p is not None:
            # A token stays if those before it have not yet reached p; so the most likely always stays.
            before = np.cumsum(probabilities[order]) - probabilities[order]
            probabilities[order[before >= self.top_p]] = 0
            probabilities /= probabilities.sum()
        return probabilities


def unusable_ids(tokenizer: Tokenizer, vocab_size: int) -> list[int]:
    """Return the ids that stand for no text: unused ones, and special tokens other than the end of the text."""
    usable = set(tokenizer.ids) - set(tokenizer.specials.values()) | {tokenizer.end_of_text_id}
    return [token for token in range(vocab_size) if token not in usable]


def generate(
    model: LanguageModel,
    prompt: Sequence[int],
    *,
    count: int,
    sampling: Sampling,
    seed: int = 0,
    index: int = 0,
    stop_ids: Sequence[int] = (),
) -> Iterator[int]:
    """Yield up to `count` token ids that continue `prompt`, and end at one of `stop_ids` (which is not yielded).

    The n-th draw is a function of (seed, index, n). Keys and values are cached; when the text outgrows the model's
    context, generation continues from its last half. Raises InputError for an empty prompt.
    """
    if not prompt:
        raise InputError("generating needs at least one token to begin with")
    limit = model.config.context_length
    text = list(prompt)
    counts = np.bincount(text, minlength=model.config.vocab_size).astype(np.float64)
    cache, fresh = model.new_cache(1, min(limit, len(text) + count)), text[-limit:]
    training = model.training
    model.eval()
    try:
        for number in range(count):
            if cache.length + len(fresh) > cache.max_length:
                cache, fresh = model.new_cache(1, limit), text[-max(1, limit // 2) :]
            with no_grad():
                logits = model(np.array([fresh]), cache=cache).data[0, -1]
            weights = sampling.probabilities(logits, counts)
            draw = generator(seed, "sampling", step=number, index=index).random()
            sums = np.cumsum(weights)
            token = int(np.searchsorted(sums, draw * sums[-1], side="right"))
            if token in stop_ids:
                return
            yield token
            text.append(token)
            counts[token] += 1
            fresh = [token]
    finally:
        model.train(training)
