from __future__ import annotations

import ast
from collections import Counter

import pytest

from minigrad.data import corpus, python_docs
from minigrad.data.split import num_bytes
from minigrad.errors import RunError


@pytest.fixture(scope="module")
def docs():
    return python_docs.library_documentation()


def test_the_documentation_is_megabytes_of_text_without_repeats(docs):
    assert 1_000_000 < num_bytes(docs) < 5_000_000
    assert min(map(len, docs)) >= 200
    repeated = Counter(" ".join(paragraph.split()) for text in docs for paragraph in python_docs.paragraphs(text))
    assert [paragraph for paragraph, count in repeated.items() if count > 1 and len(paragraph) > 80] == []


def test_the_documentation_holds_the_reference_and_the_docstrings(docs):
    text = "\n\n".join(docs)
    assert 'The "assert" statement' in text
    assert "\n\njson.dumps(obj, *, skipkeys=False," in text
    assert "Serialize ``obj`` to a JSON formatted ``str``." in text
    assert "\n\ntextwrap.TextWrapper\n\nObject for wrapping/filling text." in text
    assert "site-packages" not in {name for text in docs for name in text.split("\n")[0].split(".")}


def library(folder, monkeypatch, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_bytes(text.encode() if isinstance(text, str) else text)
    monkeypatch.setattr(python_docs, "library_folder", lambda: folder)


SENTENCE = "Paragraphs of documentation are long enough to be told apart. "


def test_docstrings_become_documents_and_repeats_are_dropped(tmp_path, monkeypatch):
    method = f"    def run(self, now=1):\n        '''{SENTENCE * 2}\n\n        Example:\n        '''\n"
    library(
        tmp_path,
        monkeypatch,
        pydoc_data__topics=f"topics = {{'b': 'Title\\n\\n{SENTENCE * 4}', 'a': 'A\\n\\n{SENTENCE * 5}'}}",
        alpha=f"'''Alpha.\n\n{SENTENCE * 3}'''\nif True:\n  class A:\n    'Example:'\n{method}\n",
        beta=f"'''Beta {SENTENCE * 5}'''\n\nclass B:\n{method}\nclass C:\n    '{SENTENCE * 2}'\n",
        gamma="'''Too short to be a document.'''",
        test__unit=f"'''Test {SENTENCE * 5}'''",
        broken=b"\xff",
    )
    assert python_docs.library_documentation() == [
        f"A\n\n{SENTENCE * 5}".rstrip(),
        f"Title\n\n{SENTENCE * 4}".rstrip(),
        f"alpha\n\nAlpha.\n\n{SENTENCE * 3}".rstrip()
        + f"\n\nalpha.A\n\nExample:\n\nalpha.A.run(self, now=1)\n\n{SENTENCE * 2}".rstrip()
        + "\n\nExample:",
        f"beta\n\nBeta {SENTENCE * 5}".rstrip() + "\n\nbeta.B.run(self, now=1)\n\nExample:",
    ]


def test_python_docs_come_from_the_cache_the_second_time(tmp_path, monkeypatch):
    library(tmp_path / "one", monkeypatch, alpha=f"'''{SENTENCE * 5}'''")
    first = python_docs.library_documentation()
    monkeypatch.setattr(ast, "parse", None)
    assert python_docs.library_documentation() == first
    monkeypatch.undo()
    library(tmp_path / "other", monkeypatch, beta=f"'''{SENTENCE * 6}'''")
    assert python_docs.library_documentation() != first


def test_python_source_is_every_file_once(tmp_path, monkeypatch):
    files = {
        "alpha": "a = 1\n",
        "test__copy": "a = 1\n",
        "test__unit": "b = π\r\n",
        "empty": "",
        "bad": b"\xff",
    }
    library(tmp_path, monkeypatch, **files, encodings__table="c = 3", **{"site-packages__d": "d = 4"})
    assert corpus.load("python-source").documents == ("a = 1\n", "b = π\n")


def test_the_source_of_a_held_out_module_is_left_out(tmp_path, monkeypatch):
    library(tmp_path, monkeypatch, alpha="a = 1\n", alphabet="b = 2\n", beta__gamma="c = 3\n", beta__delta="d = 4\n")
    assert python_docs.library_source(["alpha.f(x)\n\nReturn x.", "beta.gamma\n\nGreek."]) == ["b = 2\n", "d = 4\n"]


def test_a_python_without_source_is_an_error(tmp_path, monkeypatch):
    library(tmp_path, monkeypatch)
    for name in ("python-docs", "python-source"):
        with pytest.raises(RunError, match=f"no Python source in .*no {name}. Name a file"):
            corpus.load(name)
