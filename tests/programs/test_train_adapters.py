"""`train.py --adapter-rank`: a book is learned beside frozen weights, and the run folder holds the adapters alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import generate
import models
from minigrad.adapters.files import WEIGHTS
from minigrad.formats.safetensors import read_tensors
from minigrad.training.folder import checkpoint, metrics
from minigrad.training.settings import TrainConfig
from tests.killed_runs import killed_at
from tests.killed_runs import repeat as repeated
from tests.programs.test_train_teach import BOOK
from tests.small_runs import flags, record, refusal, settings, timeless
from train import train


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text(BOOK, encoding="utf-8")
    return path


def adapting(book: Path, start: Path, out: Path, **changes: Any) -> TrainConfig:
    how = {"init": str(start), "objective": "sft", "vocab": None, "batch": 4, "steps": 8, "adapter_rank": 2}
    return settings(book, out, **how | changes)


def test_adapters_are_trained_saved_continued_bit_for_bit_and_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], book: Path, finished: Path, tmp_path: Path
) -> None:
    whole = train(adapting(book, finished, tmp_path / "whole"))
    assert whole is not None
    assert "of rank 2: 2,336 of the parameters are trained" in " ".join(capsys.readouterr().out.split())
    killed_at(monkeypatch, 7, adapting(book, finished, tmp_path / "killed"))
    train(TrainConfig(resume=str(tmp_path / "killed")))
    one, other = (read_tensors(tmp_path / name / WEIGHTS) for name in ("whole", "killed"))
    assert {name: array.tobytes() for name, array in one.items()} == {n: a.tobytes() for n, a in other.items()}
    saved, again = (checkpoint.load(tmp_path / name) for name in ("whole", "killed"))
    for theirs, ours in ((saved.weights, again.weights), (saved.moments, again.moments)):
        assert {name: array.tobytes() for name, array in theirs.items()} == {n: a.tobytes() for n, a in ours.items()}
    assert sum(array.size for array in saved.weights.values()) == 2_336
    assert one["base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"].shape == (5, 32)  # specials
    assert metrics.read(tmp_path / "killed")[-1]["loss"] == metrics.read(tmp_path / "whole")[-1]["loss"]
    assert timeless(repeated(whole.command, tmp_path)) == timeless(tmp_path / "whole")
    assert not (tmp_path / "whole" / "config.json").exists()
    base, merged = models.load(finished), models.load(tmp_path / "whole")
    assert base.num_parameters() == merged.num_parameters()
    changed = [
        not np.array_equal(a, b) for a, b in zip(base.state_dict().values(), merged.state_dict().values(), strict=True)
    ]
    assert any(changed)
    assert not all(changed)
    capsys.readouterr()
    assert generate.main([str(tmp_path / "whole"), "--prompt", "to be", "--tokens", "4"]) == 0
    assert capsys.readouterr().out.startswith("to be")


def test_what_was_learned_is_the_beginning_of_another_run(book: Path, finished: Path, tmp_path: Path) -> None:
    train(adapting(book, finished, tmp_path / "first", steps=2, lr=0.02))
    train(adapting(book, tmp_path / "first", tmp_path / "second", steps=1, lr=1e-9, adapter_rank=None))
    one, other = models.load(tmp_path / "first").state_dict(), models.load(tmp_path / "second").state_dict()
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, atol=1e-6)


def test_another_base_is_refused_on_resume_and_what_adapters_need_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], book: Path, copy: Path, tmp_path: Path
) -> None:
    killed_at(monkeypatch, 6, adapting(book, copy, tmp_path / "run"))
    model = models.load(copy)
    model.parameters()[0].data += 1
    model.save(copy)
    error = refusal(capsys, "--resume", tmp_path / "run")
    assert error.startswith(f"the model in {copy} is not the one that {tmp_path / 'run'} began with")
    assert f"that was in {copy}: put that one back, or train new adapters: --init {copy} --adapter-rank" in error
    assert record(tmp_path / "run")["base"]
    changed = replace(adapting(book, copy, tmp_path / "new"), init=None, objective=None)
    assert refusal(capsys, *flags(changed)).startswith("--adapter-rank trains beside the weights of a trained model")
    changed = replace(adapting(book, copy, tmp_path / "new"), set="width=64")
    assert "trains adapters of a model as it is, and this one grows" in refusal(capsys, *flags(changed))
    assert not (tmp_path / "new").exists()
