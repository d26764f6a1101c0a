"""The docstrings of packages, and the default text, of which they are a part."""

from __future__ import annotations

import hashlib
import sys

import pytest

from minigrad.data import corpus, installed_packages, standard_library
from minigrad.data.docstrings import paragraphs

SENTENCE = "Paragraphs of documentation are long enough to be told apart. "


@pytest.fixture(scope="module")
def default():
    return corpus.load()


def digest(documents):
    return hashlib.sha256("\0".join(documents).encode()).hexdigest()[:16]


# The documentation of a version of Python (its documents as a digest), and what is held out of it.
HELD_OUT = {"8764f0a5ec0f6310": "95c6f3e0eac4d859"}


def test_the_held_out_documents_are_always_the_same(default):
    """Figures of today and of another year are of the same text: its choice depends on the library alone."""
    library = standard_library.documentation()
    hashes = [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in library]
    _, held_out = default.split()
    assert held_out == tuple(text for text, found in zip(library, hashes, strict=True) if found[0] == "0")
    assert HELD_OUT.get(digest(library), digest(held_out)) == digest(held_out)


def test_the_default_text_trains_on_all_else_but_what_repeats_the_held_out_text(default):
    train, held_out = default.split()
    assert 0 < default.left_out < 100
    assert 0.99 * corpus.num_bytes(default.documents) < corpus.num_bytes(train) < corpus.num_bytes(default.documents)
    library = corpus.num_bytes(standard_library.documentation())
    assert 0.03 < corpus.num_bytes(held_out) / library < 0.12
    assert 2 < corpus.num_bytes(train) / library < 3.5
    known = {part for text in train for part in paragraphs(text)}
    new = [part for text in held_out for part in paragraphs(text) if len(part) > 80]
    assert len(new) > 100
    assert known.isdisjoint(new)


def test_the_default_text_names_its_sources_and_their_shares(default):
    assert default.name == "python-docs"
    names = default.description.split(", ")
    assert names[0].startswith("documentation and docstrings of Python 3.")
    assert [name.split()[2] for name in names[1:3]] == ["numpy", "numba"]
    assert names[3].startswith("comments in the source of all three (")
    assert 99 <= sum(int(name[:-2].rpartition("(")[2]) for name in names) <= 101
    text = "\n\n".join(default.documents)
    assert "numpy.linalg" in text
    assert "Return evenly spaced values within a given interval." in text  # of arange, which is in C


def test_a_package_gives_its_docstrings_without_its_tests_and_without_what_came_before(tmp_path, monkeypatch):
    files = {
        "__init__": f"'''Package.\n\n{SENTENCE * 4}'''",
        "parts/__init__": f"def run(now=1):\n  '''{SENTENCE * 5}'''\n",
        "fast": f"add_newdoc('packed.fast', 'sum', '''\n    sum(a)\n\n    {SENTENCE * 6}\n    ''')\n"
        f"add_newdoc('packed.fast', 'kind', ('at', '''{SENTENCE * 7}'''))\nadd_newdoc(1, 2)\n",
        "copied": f"'''{SENTENCE * 8}'''",
        "tests/test_it": f"'''{SENTENCE * 9}'''",
    }
    for name, text in files.items():
        path = tmp_path / "packed" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(installed_packages, "version", lambda package: "1.0")
    read = [f"before\n\n{SENTENCE * 8}"]
    expected = [
        f"packed\n\nPackage.\n\n{SENTENCE * 4}".rstrip(),
        f"packed.fast.sum\n\nsum(a)\n\n{SENTENCE * 6}".rstrip() + f"\n\npacked.fast.kind.at\n\n{SENTENCE * 7}".rstrip(),
        f"packed.parts.run(now=1)\n\n{SENTENCE * 5}".rstrip(),
    ]
    assert installed_packages.documentation("packed", read) == expected
    monkeypatch.setattr(installed_packages, "modules", None)
    assert installed_packages.documentation("packed", read) == expected  # from the cache
    assert installed_packages.documentation("no_such_package", read) == []
