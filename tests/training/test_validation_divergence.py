"""The operation that made the first number that is not finite is found, also by stages that each have some layers."""

from __future__ import annotations

import math

import pytest

from minigrad.errors import RunError
from minigrad.evaluate.losses import Score
from minigrad.training import validation
from minigrad.training.parallel import Replicas
from minigrad.training.validation import check_finite, evaluate, first_anomaly
from tests.distributed.rooms import Room, together
from train import accumulate_gradients


@pytest.mark.parametrize("pipeline", [False, True])
def test_all_processes_name_what_one_of_them_found(make, pipeline):
    def find(world: Room) -> tuple[str, bool]:
        run = make(world=world, batch=4, pipeline=pipeline)
        run.begin()
        if world.rank == 1:  # in the layers of the second stage
            run.model.model.layers[-1].mlp.down_proj.weight.data[...] = float("inf")
        found = first_anomaly(run, lambda: accumulate_gradients(run, run.batch()))
        return found, isinstance(run.workers, Replicas)

    first, second = together(2, find)
    assert first == second
    assert "NaN" in first[0] or "infinity" in first[0]
    assert first[1]


def test_without_an_anomaly_the_gradient_became_too_large(make):
    run = make()
    assert first_anomaly(run, lambda: accumulate_gradients(run, run.batch())) == "the gradient became too large"


def test_a_step_that_is_over_is_named_and_not_the_next_one(make):
    run = make()
    run.begin()
    run.step = 7
    run.model.model.layers[-1].mlp.down_proj.weight.data[...] = float("nan")
    with pytest.raises(RunError, match=r"training diverged at step 7: model\.layers"):
        check_finite(run)


def test_a_validation_loss_that_is_not_finite_is_never_the_best(make, monkeypatch):
    run = make()
    run.begin()
    run.step = 7
    monkeypatch.setattr(validation, "score", lambda *_: Score(math.nan, math.nan, 9, math.nan, math.nan))
    with pytest.raises(RunError, match="diverged at step 7: the loss of the validation text is not finite"):
        evaluate(run, everything=False)
    assert run.best is None
