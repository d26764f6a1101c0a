"""What is evaluated: the test text only at the end of a run that asks for it, and which models are the best."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from minigrad.evaluate.losses import evaluate
from minigrad.finetuning.distillation import Distillation
from minigrad.finetuning.supervised import SupervisedLearning
from minigrad.training import validation
from minigrad.training.folder import metrics
from minigrad.training.run import Guest, Run
from minigrad.training.validation import score_of_test
from tests import small_runs
from train import take_step, train


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


@pytest.mark.parametrize("lessons", [None, Distillation, SupervisedLearning])
def test_a_run_that_learns_from_text_keeps_its_best_model(make, lessons):
    run, learns_text = make(), lessons is not SupervisedLearning
    run.plan = dataclasses.replace(run.plan, lessons=lessons)
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


class Noted(Guest):
    """The shares of merged tokens of each step, before anything else is done with the model."""

    def __init__(self) -> None:
        self.shares: list[list[float]] = []

    def after_step(self, run: Run, norm: float) -> None:
        self.shares.append(run.workers.measurements()["merge_ratio"])


def test_an_evaluation_leaves_what_the_step_measured(tmp_path):
    text, noted = small_runs.write_text(tmp_path / "words.txt"), Noted()
    shape = "num_layers=3,width=32,num_heads=2,atm_threshold=0.2"
    own = {"model": "wiola", "set": shape, "steps": 4, "eval_every": 1, "sample_every": 1, "context": 64}
    with small_runs.quick_runs():
        train(small_runs.settings(text, tmp_path / "run", **own), guests=[noted])
    assert [line["merge_ratio"] for line in metrics.read(tmp_path / "run")] == noted.shares
    assert len(noted.shares) == 4
    assert np.min(noted.shares) > 0
