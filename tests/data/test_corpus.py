from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data import comments, corpus, installed_packages, standard_library
from minigrad.data.corpus import Corpus
from minigrad.errors import InputError

ROOT = Path(__file__).parents[2]
TEXT = "The quick brown fox jumps over the lazy dog.\n" * 20


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


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=60))
def test_every_document_is_either_held_out_or_trained_on(documents):
    if len(set(documents)) < 2:
        return
    train, held_out = Corpus("name", "", tuple(documents)).split()
    assert train
    assert held_out
    assert set(train).isdisjoint(held_out)
    assert Counter(train + held_out) == Counter(documents)


def test_added_documents_do_not_change_the_split_of_the_others():
    texts = [f"document {number}" for number in range(1_000)]
    _, few = Corpus("", "", tuple(texts[:500])).split()
    _, more = Corpus("", "", tuple(reversed(texts))).split()
    assert set(few) == set(more) & set(texts[:500])
    assert 40 < len(more) < 85


def test_a_corpus_of_held_out_documents_can_be_split():
    texts = Corpus("", "", tuple(f"document {number}" for number in range(100))).split()[1]
    train, held_out = Corpus("", "", texts).split()
    assert len(train) == 1
    assert len(held_out) == len(texts) - 1


def test_a_single_document_gives_its_last_tenth():
    for documents in ((TEXT,), (TEXT, TEXT)):
        (train,), (held_out,) = Corpus("", "", documents).split()
        assert train + held_out == TEXT
        assert train.endswith("dog.\n")
        assert 0.05 < len(held_out) / len(TEXT) < 0.25
    (train,), (held_out,) = Corpus("", "", ("x" * 100,)).split()
    assert (len(train), len(held_out)) == (90, 10)
    with pytest.raises(InputError, match="1 characters of text are too few"):
        Corpus("", "", ("x",)).split()


WORDS = "whether tis nobler in the mind to suffer the slings and arrows of outrageous fortune"


def test_held_out_text_of_its_own_leaves_all_other_text_to_train_on(tmp_path):
    for name, text in {"a.txt": f"Hamlet\n\nOr {WORDS}?\n\nExit", "b.txt": "to be", "c.txt": "or not"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    other = tmp_path / "held"
    other.mkdir()
    (other / "c.txt").write_text("or not", encoding="utf-8")
    (other / "long.txt").write_text(f"{WORDS} ...\n\n" * 2_000, encoding="utf-8")
    loaded = corpus.load(str(tmp_path / "a.txt"), held_out=str(other))
    assert loaded.split() == (("Hamlet\n\nExit",), ("or not", f"{WORDS} ...\n\n" * 2_000))  # and nothing is cut
    assert (loaded.left_out, loaded.documents) == (1, (f"Hamlet\n\nOr {WORDS}?\n\nExit",))
    assert loaded.description == f"text in {tmp_path / 'a.txt'}; held out: text in {other}"
    with pytest.raises(InputError, match="is in the held-out text too: nothing is left to train on"):
        corpus.load(str(other / "c.txt"), held_out=str(other)).split()
    everything = corpus.load(str(tmp_path), held_out=str(other))  # one is in the other
    assert everything.split()[0] == ("Hamlet\n\nExit", "to be")


def test_a_text_that_is_evaluated_is_whole_but_a_named_one_is_its_held_out_part(tmp_path, monkeypatch):
    documents = [f"document {number}" for number in range(99)]
    monkeypatch.setattr(standard_library, "documentation", lambda: documents)
    monkeypatch.setattr(installed_packages, "PACKAGES", ())
    monkeypatch.setattr(comments, "documentation", lambda before, held_out: [])
    named = corpus.load_for_evaluation("python-docs")
    assert named.documents == corpus.load("python-docs").split()[1]
    assert named.description.startswith("held-out part of: documentation and docstrings of Python")
    (tmp_path / "a.txt").write_text("line\n" * 50_000, encoding="utf-8")
    assert corpus.load_for_evaluation(str(tmp_path / "a.txt")).documents == ("line\n" * 50_000,)
    assert corpus.load("python-docs", held_out=str(tmp_path)).split() == (
        tuple(documents), ("line\n" * 50_000,)
    )  # fmt: skip


def test_the_corpus_imports_only_the_standard_library():
    code = "import sys, minigrad.data.corpus; print({'numpy', 'ssl', 'urllib.request', 'lzma'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
