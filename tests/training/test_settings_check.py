"""Settings that exclude each other are refused, and the defaults do not."""

from __future__ import annotations

import pytest

import tokenizer
from minigrad.errors import InputError
from minigrad.training.settings import TrainConfig
from minigrad.training.settings_check import TOKENIZERS, check_processes, check_settings


def test_the_defaults_exclude_nothing():
    check_settings(TrainConfig())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TrainConfig(minutes=1, steps=1), "--minutes and --steps both say how long to train"),
        (TrainConfig(minutes=1, tokens=1), "--minutes and --tokens both"),
        (TrainConfig(minutes=1, steps=1, tokens=1), "--minutes and --steps and --tokens both"),
        (TrainConfig(vocab=300, tokenizer="a"), "--tokenizer brings one"),
        (TrainConfig(vocab=300, init="a"), "--init brings one"),
        (TrainConfig(tokenizer="vidya-v1", init="a"), "--tokenizer vidya-v1 trains a tokenizer, but --init brings one"),
        (TrainConfig(set="padding_id=3"), "--set padding_id=... has a flag of its own: --tokenizer"),
        (TrainConfig(resume="a", out="b"), "--out cannot be given with it"),
        (TrainConfig(set="vocab_size=300"), "--set vocab_size=... has a flag of its own: --vocab"),
        (TrainConfig(schedule="cosine", minutes=1.0), "a cosine must know its last step: give --steps or --tokens"),
        (
            TrainConfig(schedule="cosine", steps=9, decay="5:9"),
            "--decay is the end of --schedule wsd; a cosine has none",
        ),
        (TrainConfig(optimizer="sgd", beta1=0.8), "--beta1 is no setting of --optimizer sgd; sgd has --momentum"),
        (TrainConfig(momentum=0.8), "--momentum is no setting of --optimizer muon or adamw; give --optimizer sgd"),
        (TrainConfig(warmup=1.5, steps=9), "--warmup takes a whole number of steps, or a share .* below 1, not 1.5"),
        (TrainConfig(warmup=0.05), "--warmup 0.05 is a share of the steps: give --steps or --tokens with it"),
        (TrainConfig(set="width"), "--set takes NAME=VALUE, with commas between several, not 'width'"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        check_settings(settings)


def test_what_several_processes_cannot_do_together_is_refused():
    for objective in ("reinforce", "best-of-n", "grpo", "dpo", "distill"):
        check_processes(TrainConfig(objective=objective), 1)
        with pytest.raises(InputError, match=f"--objective {objective} lets models make its batches"):
            check_processes(TrainConfig(objective=objective), 2)
    check_processes(TrainConfig(objective="sft"), 2)


def test_a_pipeline_needs_several_processes_and_nothing_that_reads_all_weights_in_a_step():
    check_settings(TrainConfig(pipeline=True))
    check_processes(TrainConfig(pipeline=True), 2)
    check_processes(TrainConfig(pipeline=True, resume="runs/a"), 1)  # one process may continue it
    with pytest.raises(InputError, match="--pipeline divides the layers among several processes: start it with mpiex"):
        check_processes(TrainConfig(pipeline=True), 1)
    for flag, value in (("objective", "distill"), ("adapter_rank", 2), ("ema", 0.9), ("adaptive_context", True)):
        with pytest.raises(InputError, match=f"--pipeline cannot be given with --{flag.replace('_', '-')}"):
            check_settings(TrainConfig(pipeline=True, **{flag: value}))


def test_the_kinds_of_tokenizers_are_those_that_can_be_trained() -> None:
    assert set(TOKENIZERS) == set(tokenizer.KINDS)
