"""Generated tokens as a stream of text: whole characters only, up to a stop string, with the speed measured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol


class Decoder(Protocol):
    """Decodes tokens one at a time."""

    def push(self, token: int) -> str:
        """Return the characters that this token completes."""

    def flush(self) -> str:
        """Return the text of the bytes that are left, which form no whole character."""


def decoded(decoder: Decoder, tokens: Iterator[int]) -> Iterator[str]:
    """Yield the text of tokens; a character of several tokens is yielded when it is complete."""
    for token in tokens:
        yield decoder.push(token)
    yield decoder.flush()


def until(stop: str | None, texts: Iterator[str]) -> Iterator[str]:
    """Yield text up to `stop`; a possible beginning of `stop` is held back until more text decides."""
    if not stop:
        yield from texts
        return
    held = ""
    for text in texts:
        held += text
        if stop in held:
            yield held[: held.index(stop)]
            return
        possible = next(n for n in range(min(len(stop) - 1, len(held)), -1, -1) if held.endswith(stop[:n]))
        yield held[: len(held) - possible]
        held = held[len(held) - possible :]
    yield held


class Pace:
    """The speed of generation: the time to read the prompt, then tokens per second."""

    def __init__(self) -> None:
        self.started = self.first = time.perf_counter()
        self.count = 0

    def watch(self, tokens: Iterator[int]) -> Iterator[int]:
        """Yield the tokens and count them."""
        for token in tokens:
            self.count += 1
            if self.count == 1:
                self.first = time.perf_counter()
            yield token

    def summary(self) -> str:
        """Return the measured speed as a sentence, or "" for fewer than two tokens."""
        if self.count < 2:
            return ""
        rate = (self.count - 1) / (time.perf_counter() - self.first)
        return f"{self.count} tokens, {rate:,.0f} tokens/s, after {self.first - self.started:.2f} s for the first"
