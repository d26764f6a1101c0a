"""--data with several texts: their shares are kept, a run continues exactly, and bad weights are refused."""

from __future__ import annotations

import pytest

from minigrad.data import text_files
from tests.killed_runs import killed_at
from tests.small_runs import outcome, refusal, run, settings
from train import TrainConfig, train


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.jsonl"
    lines = (f'{{"text": "{number} whether it is nobler to suffer"}}\n' for number in range(200))
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_several_texts_are_read_by_their_shares_and_a_killed_run_continues_exactly(
    monkeypatch, text, other, tmp_path, capsys
):
    data = f"{text}:0.7,{other}:0.3"
    result = run(data, tmp_path / "whole", steps=10)
    plan = " ".join(capsys.readouterr().out.split())
    assert "text 2 texts: 201 documents" in plan
    assert f"text 1 70%: text in {text}: 1 document," in plan
    assert f"text 2 30%: text in {other}: 200 documents" in plan
    assert f"--data {data}" in result.command
    killed_at(monkeypatch, 7, settings(data, tmp_path / "killed", steps=10))
    # Continued with less memory, so that the texts are read from their files each time.
    monkeypatch.setattr(text_files, "_KEPT", 100)
    monkeypatch.setattr(text_files, "_PORTION", 1_000)
    assert train(TrainConfig(resume=str(tmp_path / "killed"))) is not None
    assert outcome(tmp_path / "killed") == outcome(result.out)


def test_texts_that_cannot_be_mixed_are_refused_and_nothing_is_written(text, other, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for data, message in {
        f"{text}:0,{other}:1": f"the weight of {text} is '0'; expected a number above 0",
        f"{text}:a,{other}:1": f"the weight of {text} is 'a'",
        f"{text}:1,{other}": f"'{other}' has no weight",
        "python-docs,shakespeare": "'python-docs' has no weight; expected NAME:WEIGHT,NAME:WEIGHT,...",
        f"{text}:1,{other}x:1": f"there is no data called '{other}x'. Did you mean {other}",
    }.items():
        assert message in refusal(capsys, "--data", data, "--steps", 1)
    other.write_text('{"text": "a"}\n{"text": \n', encoding="utf-8")
    assert f"{other}, line 2 is not JSON" in refusal(capsys, "--data", f"{text}:1,{other}:1", "--steps", 1)
    assert not (tmp_path / "runs").exists()
