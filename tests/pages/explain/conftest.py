"""A tokenizer of single bytes, and a small model of each family that reads a text of them."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import models
import tokenizer
from minigrad.nn.language_model import LanguageModel

FAMILIES = {
    "vidya-v1": {},
    "vidya-v2": {},
    "gpt2": {},
    "vsla": {"window": 8, "block": 4, "top_k": 5},
    "wiola": {"atm_threshold": 0.3, "atm_at_generation": True},
}


@functools.cache
def small(family: str, **changes: Any) -> LanguageModel:
    return models.build(family, "nano", vocab_size=261, context_length=64, **FAMILIES[family] | changes)


@pytest.fixture(scope="session")
def tok() -> tokenizer.Tokenizer:
    return tokenizer.train([], vocab_size=261)


@pytest.fixture
def text(tok) -> list[int]:
    return [tok.end_of_text_id, *tok.encode("The list type\n<b>é & co</b>")]


@pytest.fixture(params=FAMILIES)
def model(request) -> LanguageModel:
    return small(request.param)


@pytest.fixture(name="small")
def _small():
    return small
