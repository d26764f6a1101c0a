"""What README.md and the pages behind it name is there: links, pictures, counts; code is the source's own, or runs."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

import models
from tests.docs.python_blocks import python_blocks, run
from tests.source_files import FILES, PROGRAMS, ROOT
from tests.stress.readme import commands

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = re.findall(r'<img src="([^"]+)"[^>]* alt="([^"]+)"', PAGE)
INSIDE = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
DESIGNS = (ROOT / "docs" / "designs.md").read_text(encoding="utf-8")
PROGRAMS_OF_PAGE = python_blocks("README.md") + python_blocks("docs/inside.md")


def is_in_the_source(excerpt: str) -> bool:
    """Whether a file of the source holds these lines, whatever their common indentation."""
    indented = [textwrap.indent(excerpt, " " * width) for width in (0, 4, 8)]
    return any(each in path.read_text(encoding="utf-8") for path in FILES + PROGRAMS for each in indented)


EXCERPTS = [each for each in PROGRAMS_OF_PAGE if "import" not in each]


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)", PAGE)
    assert targets
    for target in targets:
        assert target.startswith("https://arxiv.org/") or (ROOT / target).exists(), target


def test_pictures_are_small_and_described() -> None:
    assert len(PICTURES) == PAGE.count("<img") >= 3
    for source, words in PICTURES:
        picture = ROOT / source
        assert picture.stat().st_size < 100_000
        assert "prefers-color-scheme" in ElementTree.parse(picture).getroot()[0].text  # type: ignore[operator]
        assert len(words) > 40


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=lambda each: each.splitlines()[0])
def test_code_without_imports_is_an_excerpt_of_the_source(excerpt: str) -> None:
    assert is_in_the_source(excerpt)


def test_an_excerpt_that_differs_is_noticed() -> None:
    assert len(EXCERPTS) == 2
    assert not any(is_in_the_source(each.replace("(", "(z", 1)) for each in EXCERPTS)


def test_the_network_is_that_of_the_quickstart_which_is_tested() -> None:
    (program,) = [each for each in PROGRAMS_OF_PAGE if "nn.Sequential" in each]
    assert program in python_blocks("docs/quickstart.md")


def test_the_program_that_draws_a_graph_draws_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = [each for each in PROGRAMS_OF_PAGE if "draw_graph" in each]
    run(program)
    assert capsys.readouterr().out.startswith("-1.69")
    drawn = ElementTree.parse(tmp_path / "graph.svg").getroot()
    shown = ElementTree.parse(ROOT / "docs" / "pictures" / "graph.svg").getroot()
    text = "{http://www.w3.org/2000/svg}text"
    assert {"multiply"} < {each.text for each in drawn.iter(text)} < {each.text for each in shown.iter(text)}


def test_the_counts_are_those_of_the_models() -> None:
    small = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|$", DESIGNS, flags=re.MULTILINE)
    published = re.findall(r"^\| `([\w-]+)` \| `.+` \| `([\w.]+)` \| ([\d,]+) \|$", DESIGNS, flags=re.MULTILINE)
    assert len(small) == 4
    assert {family for family, *_ in published} == set(models.FAMILIES)
    for family, size, count in [*(("vidya-v2", *each) for each in small), *published]:
        assert models.count(family, size) == int(count.replace(",", ""))
    for page in (PAGE, DESIGNS):
        assert set(models.FAMILIES) <= set(re.findall(r"^\| `([\w-]+)` \|", page, flags=re.MULTILINE))


def test_the_numbers_of_lines_are_near_those_of_the_files() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for text, pattern, file in [
        (INSIDE, r"`(models/vidya_v2\.py)` \| a whole modern language model in (\d+) lines", None),
        (index, r"in about (\d+) lines", "docs/course/one_file.py"),
    ]:
        found = re.search(pattern, text)
        assert found is not None
        lines = (ROOT / (file or found[1])).read_text(encoding="utf-8").count("\n")
        assert int(found[found.lastindex or 0]) == pytest.approx(lines, abs=15)


def test_the_tree_names_folders_and_files_that_are_there() -> None:
    tree = re.search(r"^```text\ntrain\.py .*?^```$", INSIDE, flags=re.MULTILINE | re.DOTALL)
    assert tree is not None
    floors = [ROOT, ROOT / "minigrad", ROOT / "minigrad" / "kernels"]
    for line in tree[0].splitlines()[1:-1]:
        begin = re.match(r" *((?:\w+(?:/|\.py) +)+)", line)
        assert begin is not None, line
        folder = floors[(len(line) - len(line.lstrip())) // 2]
        assert all((folder / name).exists() for name in begin[1].split()), line


def test_the_moving_picture_shows_the_first_command() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "pictures" / "writing.svg").getroot()
    shown = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert f"$ {commands(PAGE)[0].rpartition('.venv/bin/')[2]}" in shown


def test_the_commands_are_found() -> None:
    found = commands(PAGE)
    install = "python -m venv .venv && .venv/bin/pip install -e . && "
    begin = '.venv/bin/python generate.py vidya-v2-nano --prompt "The list type" --repetition-penalty 1.1'
    assert found[0] == install + begin
    assert found[1] == ".venv/bin/python train.py --model vidya-v2"
    assert all(each.startswith((".venv/bin/python ", ".venv/bin/pip ", "python -m venv ", "echo ")) for each in found)
    assert len(found) > 8
