"""The programs of docs/adding_a_sampler.md run, and the places that the page names are there."""

from __future__ import annotations

import pytest

from minigrad.generation import sampling
from minigrad.generation.settings import Sampling
from tests.docs.python_blocks import python_blocks, run


def test_the_programs_run(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("\n".join(python_blocks("docs/adding_a_sampler.md")))
    said = capsys.readouterr().out
    assert "[0.  0.5 0.5 0.  0. ]" in said
    assert "it is a sampler" in said
    model = names["model"]
    assert names["write_typically"](model, [5, 6, 7], 4, 0.9) == names["write_typically"](model, [5, 6, 7], 4, 0.9)


def test_what_is_to_be_changed_is_where_the_page_says() -> None:
    assert callable(sampling._kept)
    assert callable(Sampling.drawn_with)
