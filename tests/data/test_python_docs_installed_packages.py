"""The docstrings of packages, and the default text, of which they are a part."""

from __future__ import annotations

import sys

import pytest

from minigrad.data import corpus, python_docs

SENTENCE = "Paragraphs of documentation are long enough to be told apart. "


@pytest.fixture(scope="module")
def default():
    return corpus.load()


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
    monkeypatch.setattr(python_docs, "version", lambda package: "1.0")
    read = [f"before\n\n{SENTENCE * 8}"]
    expected = [
        f"packed\n\nPackage.\n\n{SENTENCE * 4}".rstrip(),
        f"packed.fast.sum\n\nsum(a)\n\n{SENTENCE * 6}".rstrip() + f"\n\npacked.fast.kind.at\n\n{SENTENCE * 7}".rstrip(),
        f"packed.parts.run(now=1)\n\n{SENTENCE * 5}".rstrip(),
    ]
    assert python_docs.package_docstrings("packed", read) == expected
    monkeypatch.setattr(python_docs, "modules", None)
    assert python_docs.package_docstrings("packed", read) == expected  # from the cache
    assert python_docs.package_docstrings("no_such_package", read) == []
