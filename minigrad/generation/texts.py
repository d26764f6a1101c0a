"""One text that is being written: what was drawn so far, and the token that it ends with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minigrad.generation.sampling import distribution, draw, log_probabilities, most_likely, uniform
from minigrad.generation.settings import Sampling
from minigrad.generation.streaming import TextStream
from minigrad.typing import Array, Tokenizer


class Token(int):
    """The id of a generated token, a whole number, whose attributes tell where it stands and how it was drawn."""

    prompt: int  # the number of the prompt that it continues, from 0
    sample: int  # the number of the sample of that prompt
    position: int  # its place in the continuation, from 0
    text: str  # the text that is certain with it: part of a character, or of a stop string, comes with a later token
    ended: str  # why the text ends with it: "end" (a special token), "stop", "length"; or "", and the text goes on
    drafted: bool  # whether a smaller model proposed it
    context: int | None  # the most tokens before it that the model saw, if the context adapts
    log_probability: float | None  # in the model's own distribution; None unless `alternatives` are asked for
    alternatives: tuple[tuple[int, float], ...]  # the most likely tokens in its place, with their log-probabilities


@dataclass(frozen=True)
class Rules:
    """What all texts of one call have in common."""

    sampling: Sampling
    forbidden: Array  # (V,), True for tokens that are never drawn
    ends: Array  # (V,), True for tokens that end a text
    uncounted: Array  # (V,), True for tokens that penalties leave out
    tokenizer: Tokenizer | None


class Text:
    """A text that grows token by token; each draw is a function of (seed, sample, position) and the distribution.

    Penalties count the tokens of prompt and continuation, but neither special ones, and so not those with which a
    document begins, nor those that end a text.
    """

    def __init__(self, rules: Rules, prompt: list[int], number: int, sample: int) -> None:
        self.rules, self.prompt, self.number, self.sample, self.position = rules, prompt, number, sample, 0
        self.counts: Array | None = None
        if rules.sampling.penalises:
            self.counts = np.bincount(prompt, minlength=len(rules.ends)).astype(np.float64)
            self.counts[rules.uncounted] = 0
        decoder = None if rules.tokenizer is None else rules.tokenizer.stream_decoder()
        self._stream = None if decoder is None else TextStream(decoder, rules.sampling.stop)

    @property
    def left(self) -> int:
        """The number of tokens that may still come."""
        return self.rules.sampling.tokens - self.position

    def distribution(self, logits: Array, ahead: Sequence[int] = ()) -> Array:
        """Return the probabilities (V,) of the next token, or of the one after the tokens `ahead`."""
        counts = self.counts
        if counts is not None and len(ahead):
            counts = counts + np.bincount(ahead, minlength=len(counts))
            counts[self.rules.uncounted] = 0
        return distribution(logits, self.rules.sampling, counts=counts, forbidden=self.rules.forbidden)

    def uniform(self, purpose: str = "sampling", ahead: int = 0) -> float:
        """Return the random number for the next token, or for one further `ahead`."""
        return uniform(self.rules.sampling.seed, purpose, self.sample, self.position + ahead)

    def next(self, logits: Array) -> Token:
        """Draw the next token, given the logits (V,) of the model, and add it."""
        return self.add(draw(self.distribution(logits), self.uniform()), logits)

    def add(self, drawn: int, logits: Array, *, drafted: bool = False) -> Token:
        """Add a token that was drawn; logits (V,) are those of the model at its place."""
        sampling, token = self.rules.sampling, Token(drawn)
        token.prompt, token.sample, token.position = self.number, self.sample, self.position
        token.ended = "end" if self.rules.ends[drawn] else ""
        token.text = self._text_of(token)
        if not token.ended and self.left == 1:
            token.ended = "length"
            token.text += self._stream.flush() if self._stream else ""
        token.drafted, token.context, token.log_probability, token.alternatives = drafted, None, None, ()
        if sampling.alternatives is not None:
            known = log_probabilities(logits)
            token.log_probability = float(known[drawn])
            token.alternatives = tuple((int(i), float(known[i])) for i in most_likely(known, sampling.alternatives))
        self.position += 1
        if self.counts is not None and not self.rules.uncounted[drawn]:
            self.counts[drawn] += 1
        return token

    def _text_of(self, token: Token) -> str:
        """Return the text that is certain with a token, and note the end of the text."""
        if self._stream is None:
            return ""
        if token.ended:
            return self._stream.flush()
        text = self._stream.push(int(token))
        if self._stream.stopped:
            token.ended = "stop"
        return text
