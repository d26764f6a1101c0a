"""Writing is measured on the validation text of the run, also where another text was held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tokenizer
from benchmarks import adaptive_context
from tests.small_runs import quick_runs, run, write_text


def test_the_documents_are_those_that_the_run_held_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text, other = write_text(tmp_path / "text.txt"), tmp_path / "other.txt"
    other.write_text("whether tis nobler in the mind\n" * 500, encoding="utf-8")
    with quick_runs():
        run(text, tmp_path / "run", steps=2, held_out=str(other))
    seen = list[list[int]]()

    def note(decoder: Any, texts: list[list[int]], *given: Any, **named: Any) -> dict[str, float]:
        seen.extend(texts)
        return {"mean_context": 16.0}

    monkeypatch.setattr(adaptive_context, "_read", note)
    adaptive_context.writing(tmp_path / "run", documents=1, tokens=64)
    read = tokenizer.load(tmp_path / "run").decode(seen[-1])
    assert "whether tis nobler in the mind" in read
