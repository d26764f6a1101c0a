"""One text that is being written: its tokens, their text, and why it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minigrad.generation.sampling import distribution, draw, log_probabilities, most_likely, uniform
from minigrad.generation.settings import Sampling
from minigrad.typing import Array, StreamDecoder, Tokenizer


class Token(int):
    """The id of a generated token; its attributes say where it stands and how it was drawn."""

    prompt: int  # the number of the prompt, from 0
    sample: int  # the number of the sample of that prompt
    position: int  # its place in the continuation, from 0
    text: str  # the text completed by this token; an incomplete character or stop string waits for a later token
    ended: str  # why the text ends here: "end" (a special token), "stop" or "length"; "" if it goes on
    drafted: bool  # whether the draft model proposed it
    context: int | None  # how many earlier tokens the model could see, if the context adapts
    log_probability: float | None  # under the model itself; None unless `alternatives` is set
    alternatives: tuple[tuple[int, float], ...]  # the most likely tokens here, with their log-probabilities


@dataclass(frozen=True)
class DrawingRules:
    """What all texts of one call share."""

    sampling: Sampling
    forbidden: Array  # (V,), True for tokens that are never drawn
    ends: Array  # (V,), True for tokens that end a text
    uncounted: Array  # (V,), True for tokens that penalties ignore
    tokenizer: Tokenizer | None


class Continuation:
    """The continuation of a prompt. Each draw is a function of (seed, sample, position) and the distribution.

    Penalties count the tokens of the prompt and the continuation, but no special tokens.
    """

    def __init__(self, rules: DrawingRules, prompt: list[int], number: int, sample: int) -> None:
        self.rules, self.prompt, self.number, self.sample, self.position = rules, prompt, number, sample, 0
        self.counts: Array | None = None
        if rules.sampling.penalises:
            self.counts = np.bincount(prompt, minlength=len(rules.ends)).astype(np.float64)
            self.counts[rules.uncounted] = 0
        self._stream: TextStream | None = None
        if rules.tokenizer is not None:
            decoder = rules.tokenizer.stream_decoder()
            for token in last_tokens(prompt, rules.tokenizer):
                decoder.push(token)
            self._stream = TextStream(decoder, rules.sampling.stop)

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
        """Draw the next token, given the model's logits (V,), and add it."""
        return self.add(draw(self.distribution(logits), self.uniform()), logits)

    def add(self, drawn: int, logits: Array, *, drafted: bool = False) -> Token:
        """Add a token; `logits` (V,) are the model's at its position."""
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
        """Return the text completed by a token; set `token.ended` if a stop string ends the text."""
        if self._stream is None:
            return ""
        if token.ended:
            return self._stream.flush()
        text = self._stream.push(int(token))
        if self._stream.stopped:
            token.ended = "stop"
        return text


def last_tokens(prompt: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Return the last tokens of a prompt, which may begin a character that its text completes.

    An incomplete character has three bytes at most. Ids beyond those of the tokenizer have none, and are left out.
    """
    return [token for token in prompt[-3:] if token < tokenizer.vocab_size]


class TextStream:
    """The text of tokens that arrive one by one, up to the first of the `stops`.

    A character of several tokens is returned once it is complete. Text that may begin a stop string is held back until
    it turns out not to.

    >>> from tokenizer import train
    >>> tok = train([], vocab_size=261)  # a token for each byte
    >>> stream = TextStream(tok.stream_decoder(), stops=["!?"])
    >>> [stream.push(token) for token in tok.encode("é!!?")], stream.stopped
    (['', 'é', '', '!', ''], True)
    """

    def __init__(self, decoder: StreamDecoder, stops: Sequence[str] = ()) -> None:
        self._decoder, self._stops = decoder, stops
        self._held = ""  # a possible beginning of a stop string
        self.stopped = False

    def push(self, token: int) -> str:
        """Return the text that this token completes: often one or more characters, sometimes none."""
        return self._release(self._decoder.push(token))

    def flush(self) -> str:
        """Return the rest of a text that ends here; an incomplete character becomes U+FFFD."""
        if self.stopped:
            return ""
        text, self._held = self._release(self._decoder.flush()) + self._held, ""
        return text

    def _release(self, part: str) -> str:
        text = self._held + part
        found = [(text.index(stop) + len(stop), text.index(stop)) for stop in self._stops if stop in text]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]  # the stop string that is complete first, however the text was split
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        sizes = range(min(longest, len(text)), 0, -1)
        held = next((n for n in sizes if any(stop.startswith(text[-n:]) for stop in self._stops)), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]
