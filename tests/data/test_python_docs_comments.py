"""The comments of source files as training text."""

from __future__ import annotations

import sys

import pytest

from minigrad.data import corpus, python_docs
from minigrad.data.split import num_bytes

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
    monkeypatch.setattr(python_docs, "PACKAGES", ("packed", "no_such_package"))
    monkeypatch.setattr(python_docs, "version", lambda package: "1.0")
    monkeypatch.setattr(python_docs, "library_folder", lambda: tmp_path / "library")


def test_each_module_gives_its_long_comments_once_without_tests(installed):
    long = (SENTENCE * 4).rstrip()
    assert python_docs.comments([], []) == [
        f"first\n\n{SENTENCE}\nsecond line\n\nnew paragraph\n\n{long}",
        f"folder\n\nfolder {SENTENCE * 5}".rstrip(),
        f"folder.secret\n\ninner {SENTENCE * 5}".rstrip(),
        f"secret\n\nsecret {SENTENCE * 5}".rstrip(),
        f"packed\n\npacked {SENTENCE * 5}".rstrip(),
    ]
    known = [f"anything\n\nsecret   {SENTENCE * 5}"]
    assert not any(text.startswith("secret") for text in python_docs.comments(known, []))


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
    found = python_docs.comments([], [f"{heading}\n\nText."])
    assert {text.partition("\n")[0] for text in found} == modules


def heading(document: str) -> str:
    return document.partition("\n")[0]


@pytest.fixture(scope="module")
def default_text():
    return python_docs.library_documentation(), python_docs.read(), corpus.load().split().train


def test_the_default_text_has_no_comments_of_modules_that_are_held_out(default_text):
    library, found, train = default_text
    held_out = (*found.validation, *found.test)
    modules = {heading(text) for text in held_out}
    assert any(name.startswith("numpy.") for name in modules)
    assert any(name.startswith("numba.") for name in modules)
    everything = python_docs.comments([], [])
    assert len(modules.intersection(map(heading, everything))) > 5
    documents = set(python_docs.comments([], held_out))
    assert modules.isdisjoint(map(heading, documents))
    assert 0.8e6 < num_bytes(documents) < num_bytes(everything) < 2e6
    trained = {*train} - {*library}
    assert modules.isdisjoint(map(heading, trained))
