"""Every model that is compared is causal, and trains; a run that was stopped continues."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from benchmarks import wiola_choices
from benchmarks.wiola_choices import choices
from minigrad.options import assignments
from models import wiola
from tests.killed_runs import Killed, kill, stop
from tests.models.tiny import CONTEXT, TINY, VOCAB, tokens
from tests.small_runs import quick_runs, write_text

MODELS = choices()


@pytest.mark.parametrize("name", MODELS)
def test_a_variant_learns_and_sees_no_later_token(name: str) -> None:
    make, changes = MODELS[name]
    fields = TINY["wiola"] | {"vocab_size": VOCAB, "context_length": CONTEXT, "init_std": 0.2, "end_of_text_id": 0}
    model: Any = make(models.configure("wiola", **fields | assignments(changes)))
    model.initialise(0, "float64")
    ids = tokens(0, 2, CONTEXT)
    model.loss(ids[:, :-1], ids[:, 1:]).backward()
    assert all(np.isfinite(each.grad).all() for each in model.parameters() if each.grad is not None)
    model.eval()
    np.testing.assert_allclose(model(ids[:, :9]).data, model(ids).data[:, :9], rtol=0, atol=1e-9)


def test_a_variant_that_was_stopped_continues(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, folder = write_text(tmp_path / "text.txt", lines=600), tmp_path / "runs"
    small = wiola.WiolaConfig(**TINY["wiola"] | {"vocab_size": 4096, "context_length": 256})
    monkeypatch.setitem(wiola.SIZES, "nano", small)
    monkeypatch.setitem(models.FAMILIES, "wiola", models.FAMILIES["wiola"])
    words = [str(folder), "--tokens", "8192", "--data", str(text), "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["wiola_choices.py", *words, "--only", "0"])
    with quick_runs():
        with monkeypatch.context() as patch:
            stop(patch, 1, kill)
            with pytest.raises(Killed):
                wiola_choices.main()
        assert (folder / "0" / "minigrad.json").exists()
        assert not (folder / "0.json").exists()
        wiola_choices.main()
        (folder / "0.json").unlink()  # killed between the end of the run and its result
        wiola_choices.main()
    assert (folder / "0.json").exists()
    assert "BLAS" in capsys.readouterr().out  # of the machine
