"""The length, the schedule and the optimizer of a run fit together."""

from __future__ import annotations

import pytest

from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.training.settings import TrainConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TrainConfig(minutes=1, steps=1), "--steps and --minutes both say how long to train"),
        (TrainConfig(minutes=1, tokens=1), "--tokens and --minutes both"),
        (TrainConfig(minutes=1, steps=1, tokens=1), "--steps and --tokens and --minutes both"),
        (TrainConfig(minutes=1, steps=1, resume="runs/a"), "--steps and --minutes both say how long to train"),
        (TrainConfig(schedule="cosine", minutes=1.0), "a cosine must know its last step: give --steps or --tokens"),
        (
            TrainConfig(schedule="cosine", steps=9, decay="5:9"),
            "--decay is the end of --schedule wsd; a cosine has none",
        ),
        (TrainConfig(optimizer="sgd", beta1=0.8), "--beta1 is not a setting of --optimizer sgd; sgd has --momentum"),
        (TrainConfig(momentum=0.8), "--momentum is not a setting of --optimizer muon or adamw; give --optimizer sgd"),
        (TrainConfig(warmup=1.5, steps=9), "--warmup takes a whole number of steps, or a share .* below 1, not 1.5"),
        (TrainConfig(warmup=0.05), "--warmup 0.05 is a share of the steps: give --steps or --tokens with it"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        settings.check()


@pytest.mark.parametrize("name", ["beta1", "beta2", "momentum"])
def test_the_command_line_refuses_a_decay_that_no_optimizer_takes(name):
    parser = Parser(TrainConfig, prog="train.py", description="")
    settings, _ = parser.read([f"--{name}", "0.9999999"])
    assert getattr(settings, name) == 0.9999999
    with pytest.raises(InputError, match=f"--{name} takes .* at least 0 and at most 0.9999999, not '0.99999999'"):
        parser.read([f"--{name}", "0.99999999"])


def test_the_settings_of_the_optimizer_are_those_of_the_folder_in_a_run_that_continues():
    TrainConfig(resume="runs/a", schedule="cosine", momentum=0.8, warmup=0.05).check()
