"""--held-out: a text of one's own is evaluated, all other text is trained on, and a run continues with the same."""

from __future__ import annotations

import pytest

import tokenizer
from minigrad.data.tokens.token_files import prepare
from tests.killed_runs import killed_at
from tests.small_runs import outcome, record, refusal, run, settings
from train import TrainConfig, train


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.txt"
    path.write_text("whether it is nobler to suffer that question\n" * 20, encoding="utf-8")
    return path


def test_validation_text_of_ones_own_is_evaluated_and_all_other_text_is_trained_on(
    monkeypatch, text, other, tmp_path, capsys
):
    result = run(text, tmp_path / "whole", steps=10, held_out=str(other))
    assert f"validation: {other}" in " ".join(capsys.readouterr().out.split())
    written = record(result.out)
    tok = tokenizer.load(result.out)
    assert written["settings"]["held_out"] == str(other)
    assert written["text"] == prepare([text.read_text(encoding="utf-8")], tok).digest
    assert written["validation_text"] == prepare([other.read_text(encoding="utf-8")], tok).digest
    assert f"--held-out {other}" in result.command
    killed_at(monkeypatch, 7, settings(text, tmp_path / "killed", steps=10, held_out=str(other)))
    assert train(TrainConfig(resume=str(tmp_path / "killed"))) is not None
    assert outcome(tmp_path / "killed") == outcome(result.out)


def test_validation_text_that_changed_or_is_not_there_is_refused(text, other, tmp_path, capsys):
    folder = run(text, tmp_path / "run", steps=2, held_out=str(other)).out
    with other.open("a", encoding="utf-8") as file:
        file.write("more\n")
    error = refusal(capsys, "--resume", folder, "--steps", 4)
    assert error.startswith(f"the validation text of {other} is not the one that {folder} began with")
    assert "there is no data called 'other.text'" in refusal(capsys, "--data", text, "--held-out", "other.text")
    refused = refusal(capsys, "--resume", folder, "--held-out", text)
    assert f"--held-out {text} (the run has {other})" in refused
