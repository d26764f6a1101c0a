"""The directive shows real lines with their numbers, and a name that is not there breaks the build."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from docs.extensions.notes import code_of
from docs.extensions.source_parts import find
from tests.source_files import ROOT

pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]
SETTINGS = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "docs" / "extensions")!r}]
extensions = ["myst_nb", "annotate", "claims", "files", "mathml", "reference"]
source_suffix = {{".md": "myst-nb"}}
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
"""


def build(folder: Path, text: str) -> tuple[int, str]:
    """Build a page with this text; return the exit code and the page."""
    from sphinx.cmd.build import build_main

    (folder / "conf.py").write_text(SETTINGS, encoding="utf-8")
    (folder / "index.md").write_text(f"# Page\n\n{text}", encoding="utf-8")
    code = build_main(["--fail-on-warning", "--quiet", str(folder), str(folder / "out")])
    page = folder / "out" / "index.html"
    return code, page.read_text(encoding="utf-8") if page.exists() else ""


def test_the_lines_are_those_of_the_file(tmp_path: Path) -> None:
    code, page = build(tmp_path, "```{annotate} minigrad.ops.softmax.softmax\n```\n")
    assert code == 0
    lines = (ROOT / "minigrad" / "ops" / "softmax.py").read_text(encoding="utf-8").splitlines()
    shown = re.findall(r'<span class="line" data-line="(\d+)">(.*?)\n</span>', page, flags=re.DOTALL)
    assert len(shown) > 5
    for number, line in shown:
        assert html.unescape(re.sub("<[^>]+>", "", line)) == lines[int(number) - 1]
    assert "<math" in page
    assert "Convert real values to probabilities" in page
    assert "r&quot;&quot;&quot;" not in page  # the docstring is prose, and not shown twice


def test_notes_stand_beside_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "minigrad.ops.norm.rms_norm_formula"
    notes = f":code: {code_of(find(name, ROOT))}\n\nr = np.sqrt\n: The *length* $r$.\n\nreturn\n: Divide."
    code, page = build(tmp_path, f"```{{annotate}} {name}\n{notes}\n```\n")
    assert code == 0
    rows = [html.unescape(re.sub("<[^>]+>", "", row)) for row in page.split('<div class="annotate-row')[1:]]
    assert [("The length" in row, "np.sqrt" in row, "Divide." in row, "return" in row) for row in rows[-2:]] == [
        (True, True, False, False),
        (False, False, True, True),
    ]
    (tmp_path / "again").mkdir()
    code, _ = build(tmp_path / "again", f"```{{annotate}} {name}\n:code: 0\n\nreturn\n: Divide.\n```\n")
    assert code != 0
    assert "the code has changed since its notes were written" in capsys.readouterr().err


def test_a_name_that_is_not_there_breaks_the_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = build(tmp_path, "```{annotate} minigrad.ops.softmax.softmux\n```\n")
    assert code != 0
    assert "softmux" in capsys.readouterr().err
