"""A small model that is served, with a tokenizer that knows the tokens of a chat."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

import models
import tokenizer
from minigrad.serving.scheduler import Scheduler
from minigrad.serving.served import Served

# Without the extra `serve` there is no API to test.
collect_ignore = (
    []
    if importlib.util.find_spec("starlette")
    else [f"test_{name}.py" for name in ("api", "api_mutations", "playground", "playground_scripts", "server")]
)


@pytest.fixture(scope="session")
def tok() -> tokenizer.Tokenizer:
    return tokenizer.train(["to be or not to be, that is the question: 3 €. " * 50], vocab_size=320)


@pytest.fixture
def make_served(tok: tokenizer.Tokenizer) -> Callable[..., Served]:
    def make(name: str = "tiny", count: int = 8, capacity: int = 256, teaches: bool = True) -> Served:
        sizes = {"num_layers": 2, "width": 32, "feed_forward": 64, "context_length": 512, "init_std": 0.1}
        model = models.build("vidya-v2", size="nano", vocab_size=tok.vocab_size, seed=1, **sizes)
        form = tokenizer.ChatTemplate(tok) if teaches else None
        return Served(name, model, tok, Scheduler(model, count, capacity), form)

    return make
