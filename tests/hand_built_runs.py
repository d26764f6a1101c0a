"""A run that is built by hand, without train.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import models
import tokenizer
from minigrad.data.corpus import Corpus
from minigrad.data.tokens import token_files
from minigrad.data.tokens.tokenized import TokenizedCorpus, token_byte_lengths
from minigrad.distributed.world import ALONE, World
from minigrad.training.budget import Budget
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.guests import guests_of
from minigrad.training.optimizers import optimizer_of
from minigrad.training.planning import costs
from minigrad.training.planning.plan import Plan
from minigrad.training.run import Run
from minigrad.training.settings import RunSettings
from tests.small_runs import TINY, WORDS

TRAIN, VALIDATION = (
    [" ".join([*WORDS[i:], *WORDS[:i]]) * 3 for i in range(12)],
    ["to be or not to be that is it " * 9, "so"],
)
TOK = tokenizer.train(TRAIN, vocab_size=300)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Build a run of a tiny model; `changes` are settings."""
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))

    def make(
        folder: Path | None = None,
        steps: int | None = 20,
        dtype: str = "float32",
        world: World = ALONE,
        **changes: Any,
    ) -> Run:
        numbers = {"batch": 2, "context": 8, "lr": 0.01, "warmup": 3, "steps": steps}
        numbers |= {"optimizer": "adamw", "weight_decay": 0.1, "beta2": 0.95, "dropout": 0.1}
        every = dict.fromkeys(("log_every", "eval_every", "save_every", "sample_every"), 10)
        settings = RunSettings(size="nano", threads=1, **{**numbers, **every, **changes})
        shape = {name: getattr(TINY, name) for name in ("num_layers", "width", "num_heads", "num_kv_heads", "head_dim")}
        model = models.build(
            "vidya-v2", vocab_size=300, feed_forward=64, dtype=dtype, dropout=settings.dropout, **shape
        )
        files = [token_files.prepare(documents, TOK) for documents in (TRAIN, VALIDATION)]
        words = Corpus("words", "words", (*TRAIN, *VALIDATION))
        text = TokenizedCorpus(words, TOK, files[0], files[1], token_byte_lengths(TOK, 300))
        place = folder or tmp_path / "run"
        place.mkdir(exist_ok=True)
        return Run(
            Plan(settings, model, text, rates=costs.Rates(1e11, 1e9), world=world),
            RunFolder(place, Record(), world=world),
            optimizer_of(model, settings, world),
            Budget(steps, None if steps else 60.0),
            clock=lambda: 2.0,
            guests=guests_of(settings, model),
        )

    return make
