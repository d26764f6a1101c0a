"""The settings of the two programs: their bounds, and that a flag means the same in both."""

from __future__ import annotations

import pytest

import tokenizer
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.generation.settings import GenerateConfig
from minigrad.options import validate
from minigrad.training.settings import TrainConfig


def test_the_defaults_are_allowed():
    validate(TrainConfig())
    validate(GenerateConfig(run="runs/a"))


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
