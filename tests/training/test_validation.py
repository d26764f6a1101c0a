"""What is evaluated: the test text only at the end of a run that asks for it, and which models are the best."""

from __future__ import annotations

import pytest

from minigrad.evaluate.losses import evaluate
from minigrad.training import validation
from minigrad.training.validation import score_of_test


def test_only_a_run_that_asks_for_it_reads_the_test_text(make):
    run = make()
    assert score_of_test(run) is None
    assert "test" not in vars(run.text)  # and nothing of it was encoded
    run = make(test=True)
    found = score_of_test(run)
    assert found is not None
    assert found.tokens == len(run.text.test) - 1
    assert run.text.test.num_bytes == sum(len(text.encode()) for text in run.text.corpus.split().test)
    alone = evaluate(run.model, run.spans_of(run.text.test), run.text.byte_lengths, context=run.settings.context)
    assert found.loss == pytest.approx(alone.loss)
    assert run.best is None  # nothing is chosen by it


@pytest.mark.parametrize(("objective", "learns_text"), [(None, True), ("distill", True), ("sft", False)])
def test_a_run_that_learns_from_text_keeps_its_best_model(make, objective, learns_text):
    run = make(objective=objective)
    validation.evaluate(run, everything=False)
    assert run.is_best == learns_text
