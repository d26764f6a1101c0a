"""The log of the steps."""

from __future__ import annotations

import errno
import math
from unittest.mock import Mock

import pytest

from minigrad.adaptive.signals import Signals
from minigrad.errors import InputError
from minigrad.system.signals import BROKEN_PIPE, StopRequest
from minigrad.training.folder import metrics
from minigrad.training.reporting.step_log import StepLog
from minigrad.training.run import Guest, Note
from minigrad.training.validation import evaluate
from train import take_step


def test_a_line_of_metrics_holds_the_measurements_and_resets_the_sums(make):
    run = make()
    with StepLog(run, StopRequest()) as log:
        for _ in range(4):
            with log.timed():
                _, norm = take_step(run)
        loss = run.totals.mean_loss
        log.write(0.01, norm, None)
        with log.timed():
            take_step(run)
        log.write(0.01, norm, evaluate(run, everything=False))
    first, second = metrics.read(run.folder.path)
    assert (first["step"], first["tokens"], first["seconds"], first["loss"]) == (4, 64, 2.0, loss)
    assert "val_loss" not in first
    assert second["loss"] != loss
    assert set(second) - set(first) == {"val_loss", "val_bits_per_byte", "val_loss_repeated", "val_loss_others"}


def test_the_speed_is_that_of_the_steps_of_this_process(make):
    run = make()
    with StepLog(run, StopRequest()) as log:
        run.totals.steps += 3  # restored from a checkpoint: an earlier process made them
        for _ in range(4):
            with log.timed():
                _, norm = take_step(run)
        log._logged -= 2.0  # the clock of the run stands still: as if two seconds had gone by
        log.write(0.01, norm, None)
    (line,) = metrics.read(run.folder.path)
    assert line["tokens_per_second"] == run.plan.tokens_before(4) / 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), ""),
        (OSError(errno.EIO, "that of a terminal that was closed"), ""),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "standard output cannot be written: No space left on device; the run saves and stops\n",
        ),
    ],
)
@pytest.mark.parametrize(("before", "code"), [(None, BROKEN_PIPE), (129, 129)])
def test_output_that_cannot_be_written_becomes_a_request_to_stop(make, monkeypatch, capsys, error, said, before, code):
    run, request = make(), StopRequest()
    closed = []
    monkeypatch.setattr("minigrad.training.reporting.step_log.close_output", lambda: closed.append(True))
    with StepLog(run, request) as log:
        with log.timed():
            _, norm = take_step(run)
        request.code = before
        monkeypatch.setattr(log.progress, "log", Mock(side_effect=error))
        log.write(0.01, norm, None)
        assert request.code == code
    assert closed == [True]
    assert capsys.readouterr().err == said
    assert len(metrics.read(run.folder.path)) == 1  # the line itself is kept


def test_a_number_of_steps_that_the_clock_chose_is_shown_and_noted(make):
    run = make(steps=None)
    run.budget.seconds = 10.0
    with StepLog(run, StopRequest()) as log:
        for now in (1.0, 2.0):  # a step of half a second
            run.clock = iter([now, now + 0.5]).__next__
            with run.pace.step():
                run.step += 1
        run.step, run.clock = 40, lambda: 9.5
        log.decide_steps()
        assert run.budget.steps == log.progress.total_steps == run.folder.record.chosen["steps"]
        assert run.folder.record.chosen["decay_start"] == 40
        fixed = run.budget.steps
        log.decide_steps()
        assert run.budget.steps == fixed


def test_a_sample_is_shown_with_the_step_it_was_written_at(make, capsys):
    run = make()
    run.step = 1_200
    with StepLog(run, StopRequest()) as log:
        log.show_sample("to\x0bbe\n\x1bnot\n")
        assert "after 1,200 steps:\n    | to\ufffdbe\n    | \ufffdnot\n" in capsys.readouterr().out
        run.step = 1
        log.show_sample("to be\n")
        assert "after 1 step:\n    | to be\n" in capsys.readouterr().out


def test_the_decisions_on_the_context_are_logged_once_and_changes_are_shown(make, capsys):
    run = make(adaptive_context=True)
    with StepLog(run, StopRequest()) as log:
        with log.timed():
            _, norm = take_step(run)
        for need in (0.5, 0.5):
            run.guests[0].context.decide(run.step, Signals(need, 9.0, 2.0, math.nan, 0.0, 1_024))
        log.write(0.01, norm, None)
        with log.timed():
            take_step(run)
        log.write(0.01, norm, None)
    first, second = metrics.read(run.folder.path)
    assert [decision["context"] for decision in first["decisions"]] == [2, 3]
    assert first["decisions"][0]["diversity"] is None
    assert (first["context"], second["context"]) == (3, 3)
    assert "decisions" not in second
    assert "context: 2 -> 3 tokens from step 1 on" in capsys.readouterr().out


@pytest.mark.parametrize("names", [["loss"], ["val_loss"], ["extra"], ["mine", "mine"]])
def test_a_guest_that_notes_a_value_under_a_name_that_is_taken_is_told(make, names):
    class Noting(Guest):
        def __init__(self, name):
            self.noted = name

        def note(self, run):
            return Note({self.noted: 1.0})

    run = make()
    run.guests += [Noting(name) for name in names]
    with StepLog(run, StopRequest()) as log:
        with log.timed():
            _, norm = take_step(run)
        with pytest.raises(InputError, match=f"has another '{names[0]}' already: give what a guest notes another name"):
            log.write(0.01, norm, None)
