"""The comments of source files as training text."""

from __future__ import annotations

import sys

import pytest

from minigrad.data import comments, corpus, standard_library
from minigrad.data.held_out import hold_out

SENTENCE = "A comment says why, and it is long enough to stand alone. "


def source(*texts: str) -> str:
    return "\n\nvalue = 1  # beside code\n\n".join("".join(f"    # {line}\n" for line in each) for each in texts)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A library of four modules and a package; its comments by modules."""
    files = {
        "library/first.py": source([SENTENCE, "second line", "", "new paragraph"], ["too short"], [SENTENCE * 4]),
        "library/secret.py": source([f"secret {SENTENCE * 5}"]),
        "library/folder/__init__.py": source([f"folder {SENTENCE * 5}"]),
        "library/folder/secret.py": source([f"inner {SENTENCE * 5}"]),
        "library/test/test_first.py": source([f"test {SENTENCE * 5}"]),
        "packed/__init__.py": source([f"packed {SENTENCE * 5}"], [SENTENCE * 4]),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(comments, "PACKAGES", ("packed", "no_such_package"))
    monkeypatch.setattr(comments, "version", lambda package: "1.0")
    monkeypatch.setattr(comments, "library_folder", lambda: tmp_path / "library")


def test_each_module_gives_its_long_comments_once_without_tests(installed):
    long = (SENTENCE * 4).rstrip()
    assert comments.documentation([], []) == [
        f"first\n\n{SENTENCE}\nsecond line\n\nnew paragraph\n\n{long}",
        f"folder\n\nfolder {SENTENCE * 5}".rstrip(),
        f"folder.secret\n\ninner {SENTENCE * 5}".rstrip(),
        f"secret\n\nsecret {SENTENCE * 5}".rstrip(),
        f"packed\n\npacked {SENTENCE * 5}".rstrip(),
    ]
    known = [f"anything\n\nsecret   {SENTENCE * 5}"]
    assert not any(text.startswith("secret") for text in comments.documentation(known, []))


@pytest.mark.parametrize(
    ("heading", "modules"),
    [
        ("secret", {"first", "folder", "folder.secret", "packed"}),
        ("secret.reveal(now=1)", {"first", "folder", "folder.secret", "packed"}),
        ("folder", {"first", "folder.secret", "secret", "packed"}),
        ("folder.secret.reveal()", {"first", "secret", "packed"}),
        ("first place", {"first", "folder", "folder.secret", "secret", "packed"}),
    ],
)
def test_a_module_of_which_something_is_held_out_gives_none(installed, heading, modules):
    found = comments.documentation([], [f"{heading}\n\nText."])
    assert {text.partition("\n")[0] for text in found} == modules


def test_the_default_text_has_no_comments_of_held_out_modules():
    library = standard_library.documentation()
    _, held_out = hold_out(library)
    headings = {text.partition("\n")[0] for text in held_out}
    everything = comments.documentation([], [])
    assert len(headings.intersection(text.partition("\n")[0] for text in everything)) > 5
    documents = set(comments.documentation([], held_out))
    assert headings.isdisjoint(text.partition("\n")[0] for text in documents)
    assert 0.8e6 < corpus.num_bytes(documents) < corpus.num_bytes(everything) < 2e6
    train, _ = corpus.load().split()
    trained = [text for text in train if text not in set(library)]
    assert headings.isdisjoint(text.partition("\n")[0] for text in trained)
