"""Every chapter becomes a notebook, nothing of Sphinx is left in it, and its cells run in Jupyter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import build

pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build") / "notebooks"
    assert build.main(["--notebooks", "--out", str(folder)]) == 0
    return folder


def test_every_chapter_is_a_notebook_without_directives(folder: Path) -> None:
    import nbformat

    chapters = sorted((Path(build.DOCS) / "course").glob("*.md"))
    assert [path.stem for path in sorted(folder.glob("*.ipynb"))] == [path.stem for path in chapters]
    for chapter in chapters:
        notebook = nbformat.read(folder / f"{chapter.stem}.ipynb", as_version=4)
        nbformat.validate(notebook)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert len(cells) == 1 + chapter.read_text("utf-8").count("```{code-cell}")
        words = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        assert not re.findall(r"^(?:```|:::){.*|{[a-z]+}`.*", words, flags=re.MULTILINE)
        for target in re.findall(
            r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", re.sub(r"```.*?```|`[^`]*`", "", words, flags=re.DOTALL)
        ):
            assert (folder / target).exists(), f"{chapter.stem}: {target}"


def test_the_cells_of_a_notebook_run(folder: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(folder / "scalar_engine.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]


def test_a_link_is_written_as_markdown_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from docs.extensions import notebooks
    from docs.extensions.notebooks import path_from

    assert path_from(tmp_path / "here", tmp_path / "docs" / "index.md") == "../docs/index.md"

    def on_another_drive(target: Path, folder: Path) -> str:
        raise ValueError

    monkeypatch.setattr(notebooks.os.path, "relpath", on_another_drive)
    assert path_from(tmp_path, tmp_path / "index.md") == (tmp_path / "index.md").as_posix()
