"""The programs of docs/adding_a_model.md run, one after the other."""

from __future__ import annotations

import pytest

from tests.docs.python_blocks import python_blocks, run


def test_the_programs_run(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("\n".join(python_blocks("docs/adding_a_model.md")))
    assert "blocks.0 to blocks.1: each Block" in capsys.readouterr().out
    assert names["model"].num_parameters() == sum(array.size for array in names["model"].state_dict().values())
