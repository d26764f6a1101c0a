"""Notes divide the code where they begin, and break the page when the code changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.extensions.notes import Note, NoteError, code_of, noted_parts, read_notes
from docs.extensions.source_parts import Excerpt, find
from tests.source_files import PAGES, ROOT

SOURCE = '''def grow(x):
    """Grow."""
    y = x + 1
    # Twice.
    z = y * 2
    return z
'''
BLOCKS = [
    (page.name, *block)
    for page in PAGES
    for block in re.findall(
        r"^```{annotate} (\S+)\n(.*?)^```$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    if block[1].strip()
]


@pytest.fixture
def excerpt(tmp_path: Path) -> Excerpt:
    (tmp_path / "some.py").write_text(SOURCE, encoding="utf-8")
    return find("some.grow", tmp_path)


def test_a_note_has_a_line_and_a_text() -> None:
    assert read_notes(["", "y = x", ": Add one.", ": And wait.", "", "return", ":done"]) == [
        Note("y = x", "Add one.\nAnd wait."),
        Note("return", "done"),
    ]
    for wrong, reason in (([": text"], "begins with a line of code"), (["y = x", "", "z"], "'y = x' has no text")):
        with pytest.raises(NoteError, match=reason):
            read_notes(wrong)


def test_the_code_is_divided_where_notes_begin(excerpt: Excerpt) -> None:
    notes = [Note("y =", "Add."), Note("z =", "More."), Note("return", "Give.")]
    parts = [(part.prose, part.lines) for part in noted_parts(excerpt, notes, code_of(excerpt))]
    assert parts == [("Grow.", [1]), ("Add.", [3]), ("Twice.\n\n\nMore.", [5]), ("Give.", [6])]
    assert [part.lines for part in noted_parts(excerpt, [], "")] == [[1, 3], [5, 6]]


@pytest.mark.parametrize("lines", [["x ="], ["z =", "y ="], ["y =", "y ="], [""]])
def test_a_note_fits_one_line_after_the_note_before(excerpt: Excerpt, lines: list[str]) -> None:
    with pytest.raises(NoteError, match="a note needs one, in the order of the code"):
        noted_parts(excerpt, [Note(line, "Text.") for line in lines], code_of(excerpt))


def test_a_change_of_the_code_and_not_of_its_prose_breaks_the_notes(tmp_path: Path, excerpt: Excerpt) -> None:
    before, path = code_of(excerpt), tmp_path / "some.py"
    path.write_text(SOURCE.replace("Twice.", "Two times.").replace("Grow.", "Become more."), encoding="utf-8")
    assert code_of(find("some.grow", tmp_path)) == before
    path.write_text(SOURCE.replace("y * 2", "y * 3"), encoding="utf-8")
    changed = find("some.grow", tmp_path)
    with pytest.raises(NoteError, match=f"set :code: {code_of(changed)}"):
        noted_parts(changed, [Note("return", "Give.")], before)


@pytest.mark.parametrize(("page", "name", "body"), BLOCKS, ids=lambda each: str(each)[:60])
def test_the_notes_of_every_page_fit_its_code(page: str, name: str, body: str) -> None:
    code = re.match(r":code: (\w+)\n", body)
    assert code, f"{page}: the block of {name} has notes and no :code:"
    assert noted_parts(find(name, ROOT), read_notes(body[code.end() :].splitlines()), code[1])


def test_central_functions_have_notes() -> None:
    assert len(BLOCKS) >= 15
