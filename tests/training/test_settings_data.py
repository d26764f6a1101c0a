"""The tokenizer is trained, or given."""

from __future__ import annotations

import pytest

import tokenizer
from minigrad.errors import InputError
from minigrad.training.settings import TOKENIZERS, TrainConfig


def test_a_tokenizer_that_is_given_has_a_size():
    with pytest.raises(InputError, match="--tokenizer brings one"):
        TrainConfig(vocab=300, tokenizer="a").check()
    TrainConfig(vocab=300, tokenizer="vidya-v1").check()


def test_the_kinds_of_tokenizers_are_those_that_can_be_trained() -> None:
    assert set(TOKENIZERS) == set(tokenizer.KINDS)
