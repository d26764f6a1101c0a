from __future__ import annotations

import pytest

from minigrad.data import python_docs

SENTENCE = "Paragraphs of documentation are long enough to be told apart. "


def test_a_paragraph_is_kept_once_and_a_heading_with_nothing_left_is_dropped():
    first = [["one", SENTENCE * 4, "Example:"], ["two", SENTENCE * 5]]
    second = [["three", SENTENCE * 5], ["four", "Example:", SENTENCE * 6], ["too short"]]
    seen = {" ".join((SENTENCE * 4).split())}
    assert list(python_docs.without_copies([first, second, [["short"]]], seen)) == [
        f"one\n\nExample:\n\ntwo\n\n{SENTENCE * 5}",
        f"four\n\nExample:\n\n{SENTENCE * 6}",
    ]
    assert " ".join((SENTENCE * 6).split()) in seen


def test_documents_are_made_once_and_anew_when_what_they_are_made_by_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    made = []

    def make():
        made.append(1)
        return iter(["π", "b"])

    assert [python_docs.kept("one", make) for _ in range(3)] == [["π", "b"]] * 3
    assert len(made) == 1
    for path in (tmp_path / "docstrings").iterdir():
        path.write_text("half of a fi", encoding="utf-8")
    assert python_docs.kept("one", make) == ["π", "b"]
    assert python_docs.kept("other", make) == ["π", "b"]
    assert len(made) == 3


@pytest.mark.parametrize("text", [b"\xff", None])
def test_a_file_that_cannot_be_read_is_empty(tmp_path, text):
    if text is not None:
        (tmp_path / "a.py").write_bytes(text)
    assert python_docs.read_source(tmp_path / "a.py") == ""


@pytest.mark.parametrize("source", ["print 'of another Python'", "x = 1\0"])
def test_a_file_that_this_python_cannot_parse_has_no_docstrings(source):
    assert python_docs.docstrings_of("old", source) == []
