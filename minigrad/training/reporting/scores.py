"""The scores of a run: on validation text, by which everything is chosen, and on test text, once at the end."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from minigrad.data.tokens.reading import reader
from minigrad.data.tokens.source import Spans
from minigrad.data.tokens.token_files import TokenFile
from minigrad.evaluate.losses import Score, evaluate

if TYPE_CHECKING:
    from minigrad.training.run import Run


def spans_of(run: Run, text: TokenFile) -> Spans:
    """Return a text as the run evaluates it."""
    return reader(run.settings.documents, text, run.settings.context).spans()


def score(run: Run, spans: Spans, limit: int | None = None) -> Score:
    """Evaluate the model of a run, by all processes together; `limit`: see `evaluate`."""
    watch = functools.partial(run.pace.each, "evaluated batch")
    context, lengths = run.settings.context, run.text.byte_lengths
    return evaluate(run.model, spans, lengths, context=context, limit=limit, watch=watch, world=run.world)


def score_of_test(run: Run) -> Score | None:
    """Evaluate on the test text if the run asks for it; only for its end, when nothing is left to be chosen."""
    if not run.settings.test:
        return None
    with run.averaged():
        return score(run, spans_of(run, run.text.test))
