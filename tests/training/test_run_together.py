"""Several processes train as one: the same losses, weights that are the same bits in each, one decision for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import models
from minigrad.errors import RunError
from minigrad.evaluate.losses import BATCH_TOKENS
from minigrad.kernels.gemm import backend as products
from minigrad.system.signals import StopRequest
from minigrad.training.reporting.step_log import StepLog
from minigrad.training.validation import evaluate
from tests.distributed.rooms import Room, together
from train import take_step


def trained(run: Any, steps: int = 20) -> tuple[list[float], list[bytes]]:
    """Return loss and norm of each step, and the weights after them."""
    found = []
    for _ in range(steps):
        _, norm = take_step(run)
        found += [run.totals.loss, norm]
    return found, [parameter.data.tobytes() for parameter in run.model.parameters()]


def losses(run: Any) -> Any:
    """Return the loss of each of 30 steps."""
    sums = [0.0]
    for _ in range(30):
        take_step(run)
        sums.append(run.totals.loss)
    return np.diff(sums)


@pytest.mark.parametrize(("size", "optimizer", "accumulate"), [(2, "adamw", 1), (2, "muon", 2), (3, "adamw", 2)])
def test_processes_follow_the_losses_of_one(make, size, optimizer, accumulate):
    """Packed, with dropout; a batch of two sequences leaves one of three processes without work."""
    settings = {"batch": 2, "context": 16, "dtype": "float64", "dropout": 0.2}
    settings |= {"optimizer": optimizer, "accumulate": accumulate}
    alone = trained(make(**settings))
    found = together(size, lambda world: trained(make(world=world, **settings)))
    np.testing.assert_allclose(found[0][0], alone[0], rtol=1e-7)
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_processes_in_bfloat16_stay_closer_to_one_than_a_tenth_of_the_distance_of_two_seeds(make, optimizer):
    """A sum that differs in its last bit may round to another bfloat16, so the bits differ, and the losses little."""
    settings = {"batch": 4, "context": 16, "steps": 30, "optimizer": optimizer, "dropout": 0.1}
    products.use(precision="bfloat16")
    try:
        alone = losses(make(**settings))
        first, second = together(2, lambda world: losses(make(world=world, **settings)))
        other = make(**settings, seed=1)
        anew = models.variant(other.model)
        anew.initialise(seed=1)
        for ours, theirs in zip(other.model.parameters(), anew.parameters(), strict=True):
            ours.data[...] = theirs.data
        seeds = np.abs(losses(other) - alone).mean()
    finally:
        products.use()
    assert first.tolist() == second.tolist()
    assert 0 < np.abs(first - alone).mean() < seeds / 10


def test_each_process_evaluates_its_part_of_the_text(make):
    alone = evaluate(make(), everything=True)
    found = together(2, lambda world: evaluate(make(world=world), everything=True))
    assert found[0] == found[1]
    assert found[0].tokens == alone.tokens
    assert found[0].bits_per_byte == pytest.approx(alone.bits_per_byte)


def test_the_clock_of_the_first_process_decides_for_all(make):
    def decide(world: Room) -> tuple[int, Any]:
        run = make(world=world, steps=None)
        run.folder.write = lambda: None
        run.clock = lambda: 52.0 + 3 * world.rank  # seconds of 60
        run.step = 900
        run.pace._steps = [0.03 * step for step in range(901)]
        assert run.choose_steps()
        return run.budget.steps, run.budget.decay

    first, second = together(2, decide)
    assert first == second
    assert first[0] > 900


@pytest.mark.parametrize("size", [1, 2, 4])
def test_each_process_evaluates_its_share_in_the_time_kept_for_the_end(make, size):
    """Eight batches of a second each; before one was measured, a step of all processes tells how long they take."""

    def reserved(world: Room) -> list[float]:
        run = make(world=world, steps=None)
        run.clock = lambda: 0.0
        of_plan = vars(run.plan)
        of_plan["evaluated_tokens"] = 0

        def until_end(tokens: int) -> float:
            of_plan["tokens_at_end"] = tokens
            return run.seconds_for_steps()

        def seconds() -> float:
            return until_end(0) - until_end(8 * BATCH_TOKENS)

        run.pace._steps = [0.0, 3.0 * run.settings.tokens_per_step / BATCH_TOKENS]  # of all processes together
        guessed = seconds()
        run.pace._work["evaluated batch"] = [1.0]
        return [guessed, seconds()]

    assert together(size, reserved)[0] == pytest.approx([8, 8 / size])


def test_all_stop_if_one_is_asked_to(make):
    def stop(world: Room) -> list[int | None]:
        request, run = StopRequest(), make(world=world)
        log = StepLog(run, request)
        before = log.stop_code()
        request.code = 143 if world.rank == 1 else None
        return [before, log.stop_code()]

    assert together(2, stop) == [[None, 143]] * 2


def test_only_the_first_process_writes_metrics(make, tmp_path):
    def log(world: Room) -> None:
        run = make(world=world)
        with StepLog(run, StopRequest()) as log, log.timed():
            log.write(*take_step(run), None)

    together(2, log)
    assert len((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 1


def test_a_loss_that_is_not_finite_ends_all_with_the_same_message(make):
    def diverge(world: Room) -> str:
        run = make(world=world)
        run.model.parameters()[0].data[...] = 1e30
        with pytest.raises(RunError) as caught:
            take_step(run)
        return str(caught.value)

    first, second = together(2, diverge)
    assert first == second
    assert "diverged at step 1: " in first
