"""The settings of the two programs: which exclude each other, and that the flags are those of the docs."""

from __future__ import annotations

import pytest

import tokenizer
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.generation.settings import GenerateConfig
from minigrad.options import validate
from minigrad.training.settings import TrainConfig, check_settings


def test_the_defaults_are_allowed_and_exclude_nothing():
    validate(TrainConfig())
    check_settings(TrainConfig())
    validate(GenerateConfig(run="runs/a"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TrainConfig(minutes=1, steps=1), "--minutes and --steps both say how long to train"),
        (TrainConfig(minutes=1, tokens=1), "--minutes and --tokens both"),
        (TrainConfig(minutes=1, steps=1, tokens=1), "--minutes and --steps and --tokens both"),
        (TrainConfig(vocab=300, tokenizer="a"), "--tokenizer brings one"),
        (TrainConfig(vocab=300, init="a"), "--init brings one"),
        (TrainConfig(resume="a", out="b"), "--out cannot be given with it"),
        (TrainConfig(set="vocab_size=300"), "--set vocab_size=... has a flag of its own: --vocab"),
        (TrainConfig(set="width"), "--set takes NAME=VALUE, with commas between several, not 'width'"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        check_settings(settings)


def test_the_smallest_vocabulary_is_that_of_a_tokenizer_without_merges():
    smallest = 256 + len(tokenizer.SPECIAL_TOKENS)
    validate(TrainConfig(vocab=smallest))
    assert tokenizer.train(["text"], vocab_size=smallest).vocab_size == smallest
    with pytest.raises(InputError):
        validate(TrainConfig(vocab=smallest - 1))


def test_a_flag_that_both_programs_have_means_the_same_in_both():
    train, write = (Parser(kind, prog="", description="").page() for kind in (TrainConfig, GenerateConfig))
    for flag in ("--threads N", "--seed N"):
        assert flag in train
        assert flag in write
