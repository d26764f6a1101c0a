"""Several texts as one: each keeps its own parts, and its tokens in a file of its own."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

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


@pytest.mark.parametrize(("shares", "times"), [("1:1", (1, 1)), ("4:1", (1.6, 0.4)), ("99:1", (1.98, 0.02))])
def test_a_vocabulary_is_learned_from_the_texts_in_their_shares(tmp_path: Path, shares: str, times: Any) -> None:
    texts = [[f"{name} number {number:02}" for number in range(50)] for name in ("first", "other")]
    for documents in texts:
        lines = "\n".join(json.dumps({"text": text}) for text in documents)
        (tmp_path / documents[0][:5]).with_suffix(".jsonl").write_text(lines, encoding="utf-8")
    first, other = shares.split(":")
    both = mixture.load(f"{tmp_path / 'first.jsonl'}:{first},{tmp_path / 'other.jsonl'}:{other}")
    assert isinstance(both, Mixture)
    for parts, expected in zip(both.parts, times, strict=True):
        counts = Counter(text for text in both.sample() if text in set(parts.train))
        assert sum(counts.values()) == pytest.approx(expected * len([*parts.train]), abs=1)
        assert {*counts.values()} <= {math.floor(expected), math.ceil(expected)}


def test_an_excerpt_has_documents_of_each_text_in_their_shares(paths: list[Path]) -> None:
    both = mixture.load(f"{paths[0]}:3,{paths[1]}:1")
    assert isinstance(both, Mixture)
    assert [*both.excerpt(10**9)] == [*both.split().train]
    (first, other), most = both.parts, both.parts[0].bytes_to_train // 2
    some = [*both.excerpt(most)]
    assert sum(len(text) for text in some) == pytest.approx(most, rel=0.1)
    expected = [3 / 4 * most / first.bytes_to_train, most / 4 / other.bytes_to_train]
    for parts, share in zip((first, other), expected, strict=True):
        texts = [*parts.train]
        assert sum(text in texts for text in some) == math.ceil(share * len(texts))
    alone = corpus.load(str(paths[0]))
    train = [*alone.split().train]
    assert [*alone.excerpt(10**9)] == train
    assert [*alone.excerpt(alone.bytes_to_train // 2)] == train[::2]


def test_a_short_text_is_not_read_for_ever_for_a_vocabulary(tmp_path: Path) -> None:
    for name, count in (("short", 50), ("long", 5_000)):
        lines = "\n".join(json.dumps({"text": f"{name} {number}"}) for number in range(count))
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    both = mixture.load(f"{tmp_path / 'short.jsonl'}:1,{tmp_path / 'long.jsonl'}:1")
    assert isinstance(both, Mixture)
    assert {*Counter(text for text in both.sample() if text.startswith("short")).values()} == {4}


def test_validation_text_of_its_own_is_there_once_and_read_once(paths, tmp_path, monkeypatch):
    (tmp_path / "held.txt").write_text("b to be or not 7", encoding="utf-8")
    read = Mock(wraps=corpus.read_held_out)
    monkeypatch.setattr(corpus, "read_held_out", read)
    both = mixture.load(f"{paths[0]}:1,{paths[1]}:1", held_out=str(tmp_path / "held.txt"))
    found = both.split()
    assert (found.validation, found.test, found.left_out) == (("b to be or not 7",), (), 1)
    assert len([*found.train]) == 79
    assert read.call_count == 1


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
    assert text.train.files[1].digest == alone.digest
    assert text.train.num_bytes == sum(len(text.encode()) for text in both.split().train)
    assert len(text.train) == sum(len(file.tokens) for file in text.train.files)


def test_a_file_is_one_text_however_its_path_is_spelled(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    spelled = [mixture.identities(f"{name}:3,python-docs:1") for name in ("a.txt", "./a.txt", str(tmp_path / "a.txt"))]
    assert spelled == 3 * [{str((tmp_path / "a.txt").resolve()): 0.75, "python-docs": 0.25}]
    assert mixture.identities("gone.txt") == {"gone.txt": 1.0}
    with pytest.raises(InputError, match=r"\./a\.txt is given twice"):
        mixture.parse_shares("a.txt:1,./a.txt:1")
