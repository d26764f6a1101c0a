"""What generate.py shows: texts in turn, their speed, and the log-probabilities of their tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from minigrad.generation.texts import Token


def in_turn(tokens: Iterable[Token], samples: int) -> Iterator[tuple[int, str, bool]]:
    """Yield (number, text, whether it ends) with all of a text before the next, though they are written together.

    The texts are numbered in the order of their prompts, with `samples` of each. The first is shown as it is written;
    the others wait until those before them have ended.
    """
    shown, waiting, ended = 0, dict[int, list[str]](), set[int]()
    for token in tokens:
        number = token.prompt * samples + token.sample
        waiting.setdefault(number, []).append(token.text)
        if token.ended:
            ended.add(number)
        while shown in waiting:
            yield shown, "".join(waiting.pop(shown)), shown in ended
            if shown not in ended:
                break
            shown += 1


def alternatives(tokens: Iterable[Token], decode: Callable[[list[int]], str]) -> str:
    """Return a table: each token with its log-probability, and the most likely tokens in its place with theirs."""
    lines, before = list[str](), None
    for token in sorted(tokens, key=lambda token: (token.prompt, token.sample, token.position)):
        text = token.prompt, token.sample
        if before not in (None, text):
            lines.append("---")
        before = text
        pairs = [(int(token), token.log_probability or 0.0), *token.alternatives]
        lines.append("   ".join(f"{chance:7.3f} {decode([each])!r:<12}" for each, chance in pairs).rstrip())
    return "\n".join(lines)


class Pace:
    """The speed of generation: the time until the first tokens, then tokens per second."""

    def __init__(self) -> None:
        self.started = self.first = self.newest = time.perf_counter()
        self.count = self.firsts = self.texts = self.drafted = 0
        self.contexts, self._context = list[str](), 0

    def note(self, token: Token) -> None:
        """Count a token that has just arrived."""
        self.newest = time.perf_counter()
        if token.position == 0 and self.firsts == self.count:
            self.first, self.firsts = self.newest, self.firsts + 1
        self.count, self.texts = self.count + 1, self.texts + bool(token.ended)
        self.drafted += token.drafted
        if token.context and (not token.position or token.context != self._context):
            self.contexts.append(f"{token.context:,} from token {token.position:,} on")
        self._context = token.context or 0

    def summary(self) -> str:
        """Return the measured speed as a sentence, or "" where each text has one token."""
        if self.count == self.firsts or self.newest == self.first:
            return ""
        rate = (self.count - self.firsts) / (self.newest - self.first)
        texts = f"{self.texts:,} texts, " if self.texts > 1 else ""
        drafted = f"; {self.drafted / self.count:.0%} of them proposed by the draft" if self.drafted else ""
        drafted += f"; context: {', '.join(self.contexts)}" if self.contexts else ""
        wait = self.first - self.started
        return f"{texts}{self.count:,} tokens, {rate:,.0f} tokens/s, after {wait:.2f} s for the first{drafted}"
