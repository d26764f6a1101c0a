"""Texts that a scheduler of a tiny model serves, in any order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minigrad.generation.continuation import Continuation
from minigrad.generation.decoding import drawing_rules
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.serving.scheduler import Scheduler, Text


class Wanted(NamedTuple):
    """A text that a client requests, and the turn at which the request arrives."""

    prompt: tuple[int, ...]
    sampling: Sampling
    sample: int = 0
    client: str = "a"
    arrives: int = 0
    leaves: int | None = None  # tokens after which the client goes away
    scored: bool = False


Bits = list[tuple[int, float | None, tuple[tuple[int, float], ...]]]
"""The tokens of a text, each with the log-probabilities, whose bits are those of the logits."""


def text_of(model: LanguageModel, wanted: Wanted) -> Text:
    rules = drawing_rules(model, wanted.sampling, None, None)
    continuation = Continuation(rules, list(wanted.prompt), 0, wanted.sample)
    return Text(continuation, wanted.client, scored=wanted.scored)


def serve(scheduler: Scheduler, wanted: Sequence[Wanted]) -> list[Bits]:
    """Serve texts until all have ended; return their tokens."""
    texts = [text_of(scheduler.model, each) for each in wanted]
    found: dict[Text, Bits] = {text: [] for text in texts}
    turn, running = 0, True
    while running:
        for text, each in zip(texts, wanted, strict=True):
            if each.arrives == turn:
                scheduler.submit(text)
        for text, event in scheduler.turn():
            assert event is not None
            assert not isinstance(event, Exception)
            found[text].append(
                (int(event), event.log_probability, event.alternatives) if isinstance(event, int) else tuple(event)
            )
        for text, each in zip(texts, wanted, strict=True):
            text.gone = each.leaves is not None and len(found[text]) >= each.leaves
        turn += 1
        running = bool(scheduler.num_waiting or scheduler.num_served) or turn <= max(each.arrives for each in wanted)
    return [found[text] for text in texts]


def alone(model: LanguageModel, wanted: Wanted, piece: int) -> Bits:
    """Return the tokens of a text that is served by itself."""
    ((tokens),) = serve(Scheduler(model, 1, model.config.context_length, piece), [wanted._replace(arrives=0)])
    return tokens
