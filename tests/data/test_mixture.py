"""Several texts as one: each keeps its own held-out part, and its tokens in a file of its own."""

from __future__ import annotations

import pytest

import tokenizer
from minigrad.data import corpus, mixture
from minigrad.data.corpus import Corpus
from minigrad.data.mixture import Mixture
from minigrad.data.token_files import MixedTokens
from minigrad.data.tokenized import TokenizedCorpus


@pytest.fixture
def paths(tmp_path):
    found = [tmp_path / name for name in ("a", "b")]
    for path in found:
        path.mkdir()
        for number in range(40):
            (path / f"{number}.txt").write_text(f"{path.name} to be or not {number}", encoding="utf-8")
    return found


def test_a_single_text_is_a_corpus(paths):
    assert isinstance(mixture.load(str(paths[0])), Corpus)


def test_each_text_has_its_own_parts(paths):
    both = mixture.load(f"{paths[0]}:3,{paths[1]}:1")
    assert isinstance(both, Mixture)
    parts = [corpus.load(str(path)).split() for path in paths]
    train, held_out = both.split()
    assert [*train] == [text for train, _ in parts for text in train]
    assert held_out == parts[0][1] + parts[1][1]
    assert (both.num_documents, both.left_out, both.description) == (80, 0, "2 texts")
    assert both.name == f"75% {paths[0]}, 25% {paths[1]}"
    assert [*both.sample()] == [*both.split()[0]]


def test_held_out_text_of_its_own_is_there_once(paths, tmp_path):
    (tmp_path / "held.txt").write_text("b to be or not 7", encoding="utf-8")
    both = mixture.load(f"{paths[0]}:1,{paths[1]}:1", held_out=str(tmp_path / "held.txt"))
    train, held_out = both.split()
    assert held_out == ("b to be or not 7",)
    assert both.left_out == 1
    assert len([*train]) == 79


def test_the_tokens_of_each_text_are_kept_by_themselves(paths):
    tok = tokenizer.train(["to be or not"], vocab_size=262)
    both = mixture.load(f"{paths[0]}:3,{paths[1]}:1")
    text = TokenizedCorpus.of(both, tok)
    assert isinstance(text.train, MixedTokens)
    assert text.train.shares == (0.75, 0.25)
    alone = TokenizedCorpus.of(corpus.load(str(paths[1])), tok).train
    assert text.train.files[1].path == alone.path
    assert text.train.num_bytes == sum(len(text.encode()) for text in both.split()[0])
    assert len(text.train) == sum(len(file.tokens) for file in text.train.files)
