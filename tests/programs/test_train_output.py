"""A run whose standard output was closed before it began trains as any other."""

from __future__ import annotations

import sys

from tests.small_runs import flags, settings, timeless
from train import main


def test_a_run_that_may_print_nothing_is_the_same(capsys, monkeypatch, text, tmp_path):
    for name in ("printing", "silent"):
        with monkeypatch.context() as patch:
            if name == "silent":
                patch.setattr(sys, "stdout", None)
            assert main(flags(settings(text, tmp_path / name, steps=3))) == 0
            if name == "silent":
                sys.stdout.close()  # what the program has put there
    assert timeless(tmp_path / "printing") == timeless(tmp_path / "silent")
    assert str(tmp_path / "silent") not in capsys.readouterr().out
