"""Several texts as one: each keeps its own parts, and its tokens in a file of its own."""

from __future__ import annotations

import pytest

import tokenizer
from minigrad.data import corpus, mixture
from minigrad.data.corpus import Corpus
from minigrad.data.mixture import Mixture
from minigrad.data.tokens.token_files import TokenMixture
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.errors import InputError


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
    found = both.split()
    for _ in range(2):  # as often as it is read
        assert [*found.train] == [text for part in parts for text in part.train]
    assert found.validation == parts[0].validation + parts[1].validation
    assert found.test == parts[0].test + parts[1].test
    assert (both.num_documents, found.left_out, both.description) == (80, 0, "2 texts")
    assert both.name == f"75% {paths[0]}, 25% {paths[1]}"
    assert [*both.sample()] == [*both.split().train]


def test_validation_text_of_its_own_is_there_once(paths, tmp_path):
    (tmp_path / "held.txt").write_text("b to be or not 7", encoding="utf-8")
    both = mixture.load(f"{paths[0]}:1,{paths[1]}:1", held_out=str(tmp_path / "held.txt"))
    found = both.split()
    assert (found.validation, found.test, found.left_out) == (("b to be or not 7",), (), 1)
    assert len([*found.train]) == 79


def test_what_one_text_holds_out_is_not_trained_on_in_another(paths, tmp_path):
    alone = corpus.load(str(paths[0])).split()
    copies = tmp_path / "copies"
    copies.mkdir()
    for number, text in enumerate([*alone.held_out, *alone.train, *(f"new {number}" for number in range(80))]):
        (copies / f"{number}.txt").write_text(text, encoding="utf-8")
    both = mixture.load(f"{paths[0]}:1,{copies}:1")
    found = both.split()
    trained = list(found.train)
    assert not {*trained} & {*found.held_out}
    assert {*alone.held_out} <= {*found.held_out}
    assert both.bytes_to_train == sum(len(text.encode()) for text in trained)
    text = TokenizedCorpus.of(both, tokenizer.train(["to be or not"], vocab_size=262))
    assert text.train.num_bytes == both.bytes_to_train
    assert both.bytes_as_one < both.bytes_to_train
    assert text.train.tokens_as_one < len(text.train)
    with pytest.raises(InputError, match="all that one of the texts would be trained on, another holds out"):
        Mixture((Corpus("a", "", ("to be",), ("or",)), Corpus("b", "", ("not",), ("to be",))), (0.5, 0.5)).split()


def test_neither_validation_nor_test_text_of_one_text_is_trained_on_in_another():
    one = Corpus("a", "", ("to be", "or not"), ("that is",), ("the question",))
    other = Corpus("b", "", ("whether", "that is", "the question", "nobler"), ("nobler",), unrepeated=True)
    both = Mixture((one, other), (0.5, 0.5)).split()
    assert [*both.train] == ["to be", "or not", "whether"]
    assert both.left_out == 3  # two that the first text holds out, one that the second does


def test_text_that_is_shorter_than_what_is_held_out_is_refused(paths, tmp_path):
    (tmp_path / "long.txt").write_text("that is the question\n" * 99, encoding="utf-8")
    mixture.check_enough(mixture.load(f"{paths[0]}:3,{paths[1]}:1"))
    for data in (str(paths[0]), f"{paths[0]}:3,{paths[1]}:1"):
        with pytest.raises(InputError, match=r" to train on, less than the 2\.1 kB held out for validation: give"):
            mixture.check_enough(mixture.load(data, held_out=str(tmp_path / "long.txt")))


def test_the_tokens_of_each_text_are_kept_by_themselves(paths):
    tok = tokenizer.train(["to be or not"], vocab_size=262)
    both = mixture.load(f"{paths[0]}:3,{paths[1]}:1")
    text = TokenizedCorpus.of(both, tok)
    assert isinstance(text.train, TokenMixture)
    assert text.train.shares == (0.75, 0.25)
    alone = TokenizedCorpus.of(corpus.load(str(paths[1])), tok).train
    assert text.train.files[1].path == alone.path
    assert text.train.num_bytes == sum(len(text.encode()) for text in both.split().train)
    assert len(text.train) == sum(len(file.tokens) for file in text.train.files)
