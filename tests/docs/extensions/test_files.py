"""Every file of the program is on one page, and every place in it can be linked to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.extensions.test_annotate import build
from tests.source_files import FILES, PAGES, PROGRAMS, ROOT, name_of


def test_every_file_is_on_one_page() -> None:
    shown: list[str] = []
    for page in PAGES:
        for place in re.findall(r"^```{files} (\S+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            path = ROOT / place
            shown += [place] if path.is_file() else [name_of(each) for each in path.glob("*.py")]
    assert sorted(shown) == sorted(name_of(path) for path in FILES + PROGRAMS)


@pytest.mark.docs
@pytest.mark.filterwarnings("default")
def test_a_definition_can_be_linked_to(tmp_path: Path) -> None:
    role = "{source}`minigrad.optim.adamw.AdamW.update`"
    code, page = build(tmp_path, f"{role}\n\n```{{files}} minigrad/optim\n```\n")
    assert code == 0
    assert 'href="#minigrad.optim.adamw.AdamW.update"' in page
    line = next(number for number, text in enumerate(lines_of("adamw"), 1) if text.startswith("    def update("))
    assert f'data-line="{line}" id="minigrad.optim.adamw.AdamW.update"' in page
    assert page.count('id="minigrad.optim.adamw"') == 1


def lines_of(module: str) -> list[str]:
    return (ROOT / "minigrad" / "optim" / f"{module}.py").read_text(encoding="utf-8").splitlines()


@pytest.mark.docs
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{source}`minigrad.optim.adamw.AdamQ`\n\n```{files} minigrad/optim\n```\n", "AdamQ"),
        ("```{files} minigrad/optimizers\n```\n", "minigrad/optimizers"),
    ],
)
def test_a_place_that_is_not_there_breaks_the_build(
    text: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = build(tmp_path, text)
    assert code != 0
    assert word in capsys.readouterr().err
