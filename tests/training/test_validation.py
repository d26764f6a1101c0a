"""What is evaluated: the test text only at the end of a run that asks for it, and which models are the best."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.evaluate.losses import evaluate
from minigrad.training import validation
from minigrad.training.folder import metrics
from minigrad.training.validation import score_of_test
from tests import small_runs
from train import take_step


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


def test_the_test_text_is_judged_by_the_average_of_the_weights(make):
    run = make(test=True, ema=0.7)
    for _ in range(2):
        take_step(run)

    def loss() -> float:
        text = run.spans_of(run.text.test), run.text.byte_lengths
        return evaluate(run.model, *text, context=run.settings.context).loss

    with run.evaluating():
        averaged = loss()
    assert averaged != loss()
    assert score_of_test(run).loss == averaged


def test_an_evaluation_leaves_what_the_step_measured(tmp_path):
    text, found = small_runs.write_text(tmp_path / "words.txt"), []
    for every in (1, 100):
        shape = "num_layers=3,width=32,num_heads=2,atm_threshold=0.2"
        own = {"model": "wiola", "set": shape, "steps": 4, "eval_every": every, "sample_every": every, "context": 64}
        with small_runs.quick_runs():
            small_runs.run(text, tmp_path / f"every-{every}", **own)
        found.append([line["merge_ratio"] for line in metrics.read(tmp_path / f"every-{every}")])
    assert found[0] == found[1]
    assert np.min(found) > 0
    assert np.max(found) <= 0.5
    assert (np.array(found) * 128 % 1 == 0).all()  # of the tokens of a step, also at the end
