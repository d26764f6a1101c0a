"""The directive that puts a figure into a page: its place, its scripts, the files that it loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.extensions import figure_files
from tests.source_files import ROOT

pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]


def test_a_page_loads_the_scripts_of_its_own_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sphinx.cmd.build import build_main

    paths = [str(ROOT), str(ROOT / "docs" / "extensions")]
    settings = f"import sys\nsys.path[:0] = {paths}\nextensions = ['myst_parser', 'touch']\n"
    settings += f"html_static_path = [{str(ROOT / 'docs' / 'static')!r}]\n"
    (tmp_path / "conf.py").write_text(settings, encoding="utf-8")
    (tmp_path / "index.md").write_text(
        "# A\n\n```{toctree}\nother\n```\n\n```{touch} rotary\nDo *this*.\n```\n", "utf-8"
    )
    (tmp_path / "other.md").write_text("# B\n\nText.\n", encoding="utf-8")
    assert build_main(["--fail-on-warning", "--quiet", str(tmp_path), str(tmp_path / "out")]) == 0
    page, other = ((tmp_path / "out" / f"{name}.html").read_text(encoding="utf-8") for name in ("index", "other"))
    assert re.findall(r'src="_static/figures/(\w+)\.js', page) == ["shared", "rotary"]
    assert re.search(r'<figure class="touch" data-figure="rotary" hidden>\s*<p>Do <em>this</em>.</p>\s*</figure>', page)
    assert "figures/" not in other
    for name, _ in figure_files.files():
        assert (tmp_path / "out" / "_static" / "figures" / name).exists()
    (tmp_path / "index.md").write_text("# A\n\n```{touch} shared\n```\n", encoding="utf-8")
    assert build_main(["--fail-on-warning", "--quiet", str(tmp_path), str(tmp_path / "out")]) != 0
    assert "there is no figure 'shared'" in capsys.readouterr().err
