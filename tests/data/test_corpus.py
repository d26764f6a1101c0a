from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minigrad.data import corpus, python_docs, text_files
from minigrad.data.split import Parts
from minigrad.errors import InputError

ROOT = Path(__file__).parents[2]


def test_a_missing_name_offers_the_nearest(tmp_path, monkeypatch):
    (tmp_path / "novels.txt").write_text("text", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for wrong, near in {
        "novel.txt": "novels.txt",
        "python-doc": "python-docs",
        "Shakespeare": "shakespeare",
        str(tmp_path / "novls.txt"): str(tmp_path / "novels.txt"),
    }.items():
        with pytest.raises(InputError) as caught:
            corpus.load(wrong)
        assert f"Did you mean {near}" in str(caught.value)
    for wrong in ("", "zzz", "no/such/folder", "a whole text " * 500, "nul\0"):
        with pytest.raises(InputError, match=r"no data called .* Expected python-docs, python-source"):
            corpus.load(wrong)


WORDS = "whether tis nobler in the mind to suffer the slings and arrows of outrageous fortune"


def test_validation_text_of_its_own_leaves_all_other_text_to_train_on(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LARGEST_DOCUMENT", 65_536)
    for name, text in {"a.txt": f"Hamlet\n\nOr {WORDS}?\n\nExit", "b.txt": "to be", "c.txt": "or not"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    other = tmp_path / "held"
    other.mkdir()
    (other / "c.txt").write_text("or not", encoding="utf-8")
    (other / "long.txt").write_text(f"{WORDS} ...\n\n" * 2_000, encoding="utf-8")
    loaded = corpus.load(str(tmp_path / "a.txt"), held_out=corpus.read_held_out(str(other)))
    assert len(corpus.load(str(other / "long.txt")).documents) > 1
    validation = ("or not", f"{WORDS} ...\n\n" * 2_000)  # and nothing is cut
    assert loaded.split() == Parts(("Hamlet\n\nExit",), validation, (), left_out=1)
    assert loaded.documents == (f"Hamlet\n\nOr {WORDS}?\n\nExit",)
    assert loaded.description == f"text in {tmp_path / 'a.txt'}"
    assert loaded.validation_text == f"text in {other}"
    with pytest.raises(InputError, match="is validation or test text too: nothing is left to train on"):
        corpus.load(str(other / "c.txt"), held_out=corpus.read_held_out(str(other))).split()
    everything = corpus.load(str(tmp_path), held_out=corpus.read_held_out(str(other)))  # one is in the other
    assert everything.split().train == ("Hamlet\n\nExit", "to be")


@pytest.fixture
def library(monkeypatch):
    """A library of 999 short documents in the place of the default text."""
    documents = [f"document {number}" for number in range(999)]
    monkeypatch.setattr(python_docs, "library_documentation", lambda: documents)
    monkeypatch.setattr(python_docs, "PACKAGES", ())
    monkeypatch.setattr(python_docs, "comments", lambda before, held_out: [])
    return tuple(documents)


def test_a_text_that_is_evaluated_is_whole_but_a_named_one_is_one_part_of_it(library, tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LARGEST_DOCUMENT", 65_536)
    parts = corpus.load("python-docs").split()
    assert parts.validation
    assert parts.test
    assert sorted([*parts.train, *parts.validation, *parts.test]) == sorted(library)
    for name, part in (("validation", parts.validation), ("test", parts.test)):
        named = corpus.load_for_evaluation("python-docs", name)
        assert named.documents == part
        assert named.description.startswith(f"{name} part of: documentation and docstrings of Python")
    (tmp_path / "a.txt").write_text("line\n" * 50_000, encoding="utf-8")
    assert len(corpus.load(str(tmp_path / "a.txt")).documents) > 1
    assert corpus.load_for_evaluation(str(tmp_path / "a.txt")).documents == ("line\n" * 50_000,)
    with pytest.raises(InputError, match=r"a\.txt is evaluated as a whole, so it has no test part"):
        corpus.load_for_evaluation(str(tmp_path / "a.txt"), "test")
    own = corpus.load("python-docs", held_out=corpus.read_held_out(str(tmp_path))).split()
    assert own == Parts(library, ("line\n" * 50_000,), ())


def test_a_named_text_as_validation_text_keeps_its_test_part_out_of_training_too(library, tmp_path):
    parts = corpus.load("python-docs").split()
    assert parts.test
    lines = "".join(json.dumps({"text": text}) + "\n" for text in ["mine", *parts.test, *parts.validation])
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    found = corpus.load(str(tmp_path / "a.jsonl"), held_out=corpus.read_held_out("python-docs")).split()
    assert (found.train, found.held_out) == (("mine",), parts.held_out)


def test_the_default_text_beside_what_it_holds_out_is_itself(library):
    alone = corpus.load("python-docs")
    beside = corpus.load("python-docs", held_out=corpus.read_held_out("python-docs"))
    assert (beside.documents, beside.split()) == (alone.documents, alone.split())
    assert beside.num_documents == len(library) - len(alone.split().held_out)
    assert beside.validation_text == alone.description


def test_the_corpus_imports_only_the_standard_library():
    code = "import sys, minigrad.data.corpus; print({'numpy', 'ssl', 'urllib.request', 'lzma'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_link_to_nothing_is_called_that(tmp_path):
    (tmp_path / "link.txt").symlink_to("gone.txt")
    with pytest.raises(InputError, match=r"link\.txt is a link to gone\.txt, where there is nothing"):
        corpus.load(str(tmp_path / "link.txt"))
