"""The program of docs/adding_a_kernel.md runs as a file, and what it checks holds."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from minigrad.kernels import jit, threads
from tests.docs.python_blocks import python_blocks


def test_the_program_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "running_maximum.py"
    program.write_text("\n".join(python_blocks("docs/adding_a_kernel.md")), encoding="utf-8")
    specification = importlib.util.spec_from_file_location("running_maximum", program)
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    before = set(jit.KERNELS)
    monkeypatch.setattr(jit, "_FOLDER", tmp_path)  # its compiled code is kept no longer than the file
    monkeypatch.setattr(threads, "_pool", None)  # the number of threads of the other tests stays as it is
    try:
        specification.loader.exec_module(module)
    finally:
        for name in set(jit.KERNELS) - before:
            del jit.KERNELS[name]
    assert "the loop, its gradient and its threads agree" in capsys.readouterr().out
