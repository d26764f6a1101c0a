"""The scores of a run: on validation text, by which everything is chosen, and on test text, once at the end."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from minigrad.data.tokens.reading import reader
from minigrad.data.tokens.source import Spans
from minigrad.data.tokens.token_files import TokenFile
from minigrad.training.evaluate import Score, sum_losses

if TYPE_CHECKING:
    from minigrad.training.run import Run


def spans_of(run: Run, text: TokenFile) -> Spans:
    """Return a text as the run evaluates it."""
    return reader(run.settings.documents, text, run.settings.context).spans()


def score(run: Run, spans: Spans, limit: int | None = None) -> Score:
    """Evaluate the model of a run, by all processes together; `limit`: see `sum_losses`."""
    rank, size = run.world.rank, run.world.size
    sums = sum_losses(
        run.model,
        spans,
        run.text.byte_lengths,
        context=run.settings.context,
        limit=limit,
        watch=lambda batches: run.pace.each("evaluated batch", itertools.islice(batches, rank, None, size)),
    )
    run.world.add(sums)
    return Score.of(sums)


def score_of_test(run: Run) -> Score | None:
    """Evaluate on the test text if the run asks for it; only for its end, when nothing is left to be chosen."""
    if not run.settings.test:
        return None
    with run.averaged():
        return score(run, spans_of(run, run.text.test))
