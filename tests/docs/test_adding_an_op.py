"""The programs of docs/adding_an_op.md run, one after the other, and print what the page says."""

from __future__ import annotations

import pytest

from tests.docs.python_blocks import python_blocks, run


def test_the_programs_run(capsys: pytest.CaptureFixture[str]) -> None:
    run("\n".join(python_blocks("docs/adding_an_op.md")))
    assert "gradient of wrong, argument 0 of shape (1,), at index (0,): got 8, expected 12" in capsys.readouterr().out
