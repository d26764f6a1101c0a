"""python -m minigrad.training.report: one page for several runs, and no file is overwritten."""

from __future__ import annotations

from minigrad.training.report.__main__ import main
from tests.training.report.test_comparison import write_run


def test_runs_are_compared_and_no_file_is_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folders = [write_run(tmp_path / name) for name in "ab"]
    assert main(folders) == 0
    assert capsys.readouterr().out == "report   comparison.html\n"
    assert "<h1>2 runs compared</h1>" in (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert main(folders) == 2
    assert "comparison.html exists and is not overwritten" in capsys.readouterr().err
    assert main([*folders, "--out", "other.html"]) == 0


def test_no_run_is_refused(capsys):
    assert main([]) == 2
    assert "RUN is missing: run folders, two to eight" in capsys.readouterr().err
