"""The pages of the reference name every module that is public, and list its names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.extensions.test_annotate import build
from tests.source_files import FILES, PAGES, module_of

SHOWN = {
    name for page in PAGES for name in re.findall(r"^```{reference} (\S+)$", page.read_text("utf-8"), re.MULTILINE)
}


def test_every_list_of_public_names_has_its_place() -> None:
    public = {
        module_of(path) for path in FILES if path.name == "__init__.py" and "__all__ = " in path.read_text("utf-8")
    }
    assert public - SHOWN == {"models.vsla", "models.wiola"}  # the programs use their names
    assert len(public) > 8


@pytest.mark.docs
@pytest.mark.filterwarnings("default")
def test_a_page_lists_the_names(tmp_path: Path) -> None:
    files = "```{files} models/vsla/variable\n```\n"
    code, page = build(tmp_path, f"```{{reference}} models.vsla.variable\n```\n\n{files}")
    assert code == 0
    assert re.findall(r'href="#models\.vsla\.variable\.\w+\.(\w+)"', page)[:3] == ["add", "convolve", "equivalent"]
    assert "Raises" in page


@pytest.mark.docs
@pytest.mark.filterwarnings("default")
def test_a_module_that_is_not_there_breaks_the_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = build(tmp_path, "```{reference} models.vsla.variables\n```\n")
    assert code != 0
    assert "models.vsla.variables" in capsys.readouterr().err
