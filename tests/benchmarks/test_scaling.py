"""The grid behind the scaling law: a branch is the run that it stands for, and the fit is printed as it is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import models
from benchmarks import scaling
from minigrad.data.split import Parts
from minigrad.errors import InputError
from minigrad.kernels.gemm import backend
from minigrad.options import assignments
from minigrad.system import files
from minigrad.training.budget import Budget
from minigrad.training.optimizers import parameters_in_layers
from minigrad.training.planning import scaling as law
from minigrad.training.planning.choices import choose_settings
from minigrad.training.planning.costs import Rates
from minigrad.training.planning.scaling import Point
from tests.killed_runs import Killed
from tests.small_runs import outcome, quick_runs, settings, write_text
from train import TrainConfig, train

TRUE = law.Law(0.8, 60.0, 0.4, 900.0, 0.45, 6.0)


def test_a_branch_is_bit_for_bit_the_run_of_as_many_steps(tmp_path: Path) -> None:
    with quick_runs(), backend.own_choice():
        text = write_text(tmp_path / "words.txt")
        train(settings(text, tmp_path / "whole", steps=10, warmup=2))
        trunk = settings(text, tmp_path / "trunk", steps=1_000, warmup=2)
        scaling.advance(trunk, Budget(None), 5)
        scaling.advance(TrainConfig(resume=str(trunk.out)), Budget(None), 8)
        run = scaling.advance(TrainConfig(resume=str(trunk.out)), Budget(10), 10)
        assert run.step == 10
        whole, branch = (outcome(tmp_path / name)["arrays"] for name in ("whole", "trunk"))
        assert whole == branch


def test_the_parts_of_the_text_have_the_sizes_they_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Text:
        def split(self) -> Any:
            return Parts(tuple(f"{number:03}" + "a" * 97 for number in range(200)), ("held out",), ())

    monkeypatch.setattr(scaling.mixture, "load", lambda name: Text())
    half, eighth = (scaling.part_of_text(tmp_path, divisor).read_text("utf-8").splitlines() for divisor in (2, 8))
    assert (len(half), len(eighth)) == (100, 25)
    assert half[:25] == eighth


def test_a_kill_while_a_file_is_written_leaves_the_old_one_or_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    curve = scaling.Curve("one", "nano", None, 1, (1, 2))
    results = tmp_path / "results" / "one.json"
    results.write_text('[{"tokens": 1}]', encoding="utf-8")
    parts = Parts(tuple("abcdefgh"), ("held out",), ())
    monkeypatch.setattr(scaling.mixture, "load", lambda name: Mock(split=lambda: parts))
    monkeypatch.setattr(scaling, "branch", lambda *given: {"tokens": 2})
    monkeypatch.setattr(files, "move", Mock(side_effect=Killed))  # all is written, and nothing has its name yet
    with pytest.raises(Killed):
        scaling.part_of_text(tmp_path, 2)
    with pytest.raises(Killed):
        scaling.train_curve(tmp_path, curve, tmp_path / "tokenizer.json")
    assert not list(tmp_path.glob("*.jsonl"))
    assert results.read_text(encoding="utf-8") == '[{"tokens": 1}]'


@pytest.mark.parametrize("curve", scaling.CURVES, ids=lambda curve: curve.name)
def test_a_step_reads_what_train_py_takes_for_a_run_of_that_length(curve: scaling.Curve) -> None:
    model = models.for_training("vidya-v2", curve.size, **assignments(curve.fields))
    for tokens in curve.lengths:
        chosen = choose_settings(TrainConfig(tokens=tokens), model, Rates(1e11, 1e9), 1.8e6)
        assert chosen.tokens_per_step == scaling.tokens_per_step(tokens)
        assert tokens % chosen.tokens_per_step == 0


def test_the_fit_is_printed_as_the_chapter_has_it(tmp_path: Path) -> None:
    model = models.build("vidya-v2", size="nano", vocab_size=300)
    rows = [
        {"model": f"size {size}", "parameters": size, "tokens": tokens, "unique_tokens": 2_000_000}
        for size in (10**5, parameters_in_layers(model), 10**7)
        for tokens in (2 * 10**6, 10**7, 3 * 10**7, 10**8)
    ]
    for row in rows:
        row["bits_per_byte"] = TRUE.loss(*(row[name] for name in Point._fields[:3]))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "sizes.json").write_text(json.dumps(rows), encoding="utf-8")
    run = tmp_path / "run"
    model.save(run)
    result = {"tokens": 4_000_000, "bits_per_byte": TRUE.loss(580_608, 4_000_000, 2_000_000)}
    (run / "minigrad.json").write_text(json.dumps({"settings": {}, "chosen": {}, "result": result}), encoding="utf-8")
    said = scaling.describe(scaling.read_curves(tmp_path, [run]))
    assert "| size 100000 | 100,000 | 2,000,000 | 1.0 | " in said
    assert "| size 580608 | 580,608 | 4,000,000 | 2.0 | " in said
    assert f"{13 - said.count(', missed |')} of 13 points are as the other curves expect." in said
    found: dict[str, Any] = {}
    exec(said[said.index("CURVES") :], {"Law": law.Law, "Point": Point}, found)
    assert found["LAW"] == pytest.approx(TRUE, rel=0.03)
    assert len(found["WITHOUT"]) == 3
    assert found["ERROR"] < 0.001


def test_a_fit_without_results_or_with_a_run_that_does_not_belong_to_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no results; train the grid first"):
        scaling.read_curves(tmp_path, [])
    (tmp_path / "results").mkdir()
    point = {"model": "one", "parameters": 7, "tokens": 10, "unique_tokens": 5, "bits_per_byte": 1.5}
    (tmp_path / "results" / "one.json").write_text(json.dumps([point]), encoding="utf-8")
    run = tmp_path / "run"
    models.build("vidya-v2", "nano").save(run)
    for result, said in (({}, "has not ended; continue it with"), ({"tokens": 9}, "and no measured curve has as many")):
        (run / "minigrad.json").write_text(
            json.dumps({"settings": {}, "chosen": {}, "result": result}), encoding="utf-8"
        )
        with pytest.raises(InputError, match=said):
            scaling.read_curves(tmp_path, [run])
