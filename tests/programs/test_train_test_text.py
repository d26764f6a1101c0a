"""--test: the test text is held out of every run, and read once, at the end of a run that asks for it."""

from __future__ import annotations

import json

import pytest

from minigrad.data import corpus
from minigrad.evaluate.__main__ import EvaluateConfig, evaluate
from minigrad.training.folder import metrics
from tests.killed_runs import killed_at
from tests.small_runs import outcome, record, refusal, run, settings
from train import TrainConfig, train


def test_a_run_that_asks_for_it_is_tested_at_its_end_and_trained_the_same(monkeypatch, text, tmp_path, capsys):
    plain = run(text, tmp_path / "plain", steps=10)
    assert (plain.test_loss, plain.test_bits_per_byte) == (None, None)
    assert "Test:" not in capsys.readouterr().out
    tested = run(text, tmp_path / "tested", steps=10, test=True)
    assert f" Test: {tested.test_bits_per_byte:.2f}." in capsys.readouterr().out
    assert outcome(tested.out) == outcome(plain.out)
    assert " --test " in tested.command
    found = record(tested.out)["result"]
    assert (found["test_loss"], found["test_bits_per_byte"]) == (tested.test_loss, tested.test_bits_per_byte)
    assert not any("test" in name for line in metrics.read(tested.out) for name in line)
    assert not any(name.startswith("test") for name in record(plain.out)["result"])
    assert f"Test: {tested.test_bits_per_byte:.2f}" in (tested.out / "report.html").read_text(encoding="utf-8")
    killed_at(monkeypatch, 7, settings(text, tmp_path / "killed", steps=10, test=True))
    continued = train(TrainConfig(resume=str(tmp_path / "killed")))
    assert (continued.test_loss, outcome(continued.out)) == (tested.test_loss, outcome(tested.out))
    later = train(TrainConfig(resume=str(plain.out), test=True))
    assert later.test_loss == tested.test_loss


def test_each_part_of_the_text_of_a_run_is_evaluated_by_its_name(text, tmp_path):
    folder = run(text, tmp_path / "run", steps=4, test=True).out
    known, parts = record(folder)["result"], corpus.load(str(text)).split()
    for split, key, documents in (
        ("validation", "bits_per_byte", parts.validation),
        ("test", "test_bits_per_byte", parts.test),
    ):
        found = evaluate(EvaluateConfig(str(folder), split=split, threads=1))
        assert found.whole.bits_per_byte == pytest.approx(known[key])
        assert found.text.startswith(f"{split} text of the run")
        assert sum(each.num_bytes for each in found.documents) == sum(len(each.encode()) for each in documents)


def test_where_there_is_no_test_text_it_is_refused(text, tmp_path, capsys):
    (tmp_path / "other.txt").write_text("to be or not to be\n" * 40, encoding="utf-8")
    given = ("--data", text, "--held-out", tmp_path / "other.txt", "--size", "nano", "--steps", 2)
    error = refusal(capsys, *given, "--test", "--out", tmp_path / "run")
    assert error.startswith("--held-out is all for validation, which leaves no text for --test")
    (tmp_path / "long.txt").write_bytes(text.read_bytes() * 2)
    error = refusal(capsys, "--data", tmp_path / "other.txt", "--held-out", tmp_path / "long.txt", "--steps", 2)
    assert "to train on, less than the" in error


def test_a_run_from_before_there_was_a_test_is_not_continued_nor_tested_on_what_it_was_trained_on(
    text, tmp_path, capsys
):
    folder = run(text, tmp_path / "run", steps=4).out
    content = record(folder) | {"text": "the hash of more text"}
    del content["test_text"], content["settings"]["test"]
    (folder / "minigrad.json").write_text(json.dumps(content), encoding="utf-8")
    error = refusal(capsys, "--resume", folder, "--steps", 9)
    assert f"the text of {text}, now without a part that is held out for the test, is not the one that" in error
    assert evaluate(EvaluateConfig(str(folder), threads=1)).whole.tokens  # on the validation text that it had
    with pytest.raises(Exception, match="was trained without a test text of its own"):
        evaluate(EvaluateConfig(str(folder), split="test", threads=1))
    error = refusal(capsys, "--init", folder, "--data", text, "--test", "--steps", 2, "--out", tmp_path / "new")
    assert f"the model in {folder} was trained on text that is now for the test" in error
