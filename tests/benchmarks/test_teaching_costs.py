"""The benchmark of the costs of teaching: a step is no evaluation, and rollouts are compared with what they repeat."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import tokenizer
from benchmarks import teaching_costs
from tests.finetuning.test_rewards import build


def test_the_time_of_a_step_is_not_that_of_an_evaluation() -> None:
    seconds = {1: 5.0, 3: 5.5, 5: 6.0, 6: 36.0, 8: 36.5}
    lines = [{"step": step, "seconds": each} for step, each in seconds.items()]
    assert teaching_costs.milliseconds(lines) == pytest.approx(250)


def test_rollouts_are_timed_beside_plain_generation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build().save(tmp_path)
    tokenizer.train([], vocab_size=261).save(tmp_path)
    found = teaching_costs.rollouts(argparse.Namespace(run=tmp_path, questions=2, repeats=1), tmp_path)
    assert set(found) == {"rollouts", "generation"}
    assert min(found.values()) > 0
    assert capsys.readouterr().out.startswith("2 questions, 8 answers each: rollouts ")
