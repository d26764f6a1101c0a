"""A run whose text is left open: what it chooses is recorded, and it continues and repeats with that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import train as train_program
from minigrad.data import corpus
from minigrad.data.corpus import Corpus
from minigrad.training.folder.record import Record
from minigrad.training.planning import choices
from tests.small_runs import flags, refusal, settings


@pytest.fixture(params=[False, True], ids=["alone", "with source code"])
def is_mixed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, text: Path) -> bool:
    """Whether runs read source code, too; small texts have the names of the built-in ones."""
    lines = text.read_text(encoding="utf-8").splitlines()
    documents = tuple("\n".join(lines[start : start + 50]) for start in range(0, len(lines), 50))
    texts = {"python-docs": documents[:10], "python-source": documents[10:]}

    def load(name: str = corpus.DEFAULT, **_: Any) -> Corpus:
        return Corpus(name, name, texts[name], documents[:1], documents[1:2])

    monkeypatch.setattr(corpus, "load", load)
    monkeypatch.setattr(choices, "MOST_PASSES", 0.0 if request.param else 1e30)
    return bool(request.param)


def test_the_text_that_a_run_chooses_is_recorded_repeated_and_continued_with(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, is_mixed: bool
) -> None:
    out = tmp_path / "run"
    asked = flags(settings(Path("auto"), out))
    assert train_program.main(asked) == 0
    said, record = capsys.readouterr().out, Record.read(out)
    text, held_out = (choices.WITH_SOURCE, "python-docs") if is_mixed else ("python-docs", None)
    assert (record.settings["data"], record.settings["held_out"]) == ("auto", None)
    assert (record.data, record.used["data"], record.used["held_out"]) == (text, text, held_out)
    assert (f"--data {text} " + ("--held-out python-docs " if is_mixed else "")) in record.result["command"]
    assert ("so a fifth of its tokens come from python-source" in said) == is_mixed
    for again in (["--data", "auto"], []):
        steps = str(json.loads((out / "minigrad.json").read_text(encoding="utf-8"))["result"]["steps"] + 1)
        assert train_program.main(["--resume", str(out), "--steps", steps, *again]) == 0
    assert Record.read(out).data == text
    error = refusal(capsys, "--resume", str(out), "--data", "shakespeare")
    assert f"--data shakespeare (the run has {text})" in error
