"""The plan says of each of several texts how much there is and how often it will be read."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import models
from minigrad.data.corpus import Corpus
from minigrad.data.mixture import Mixture
from minigrad.data.tokens.token_files import TokenFile, TokenMixture
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.training.planning import costs
from minigrad.training.planning.choices import choose_settings
from minigrad.training.planning.description import _model_rows, text_rows
from minigrad.training.planning.plan import Plan
from minigrad.training.settings import TrainConfig

TOK = SimpleNamespace(used=9, vocab_size=9, specials={"<user>": 3, "<eos>": 5}, end_of_text_id=5)


def files(*sizes):
    return [TokenFile(np.zeros(size, np.uint16), 3 * size, "") for size in sizes]


def test_a_single_text_has_one_row():
    corpus = Corpus("a", "letters", ("one", "two"), ("v",), ("a test",))
    text = TokenizedCorpus(corpus, TOK, *files(500, 50), np.ones(9))
    assert text_rows(text, 9, 1_000.0) == {
        "text": "letters: 2 documents, 1.5 kB to train on, 150 bytes for validation, 6 bytes for the test",
        "vocabulary": "9 tokens, 3.00 bytes each; <eos> ends a document",
    }


def test_ids_without_a_token_are_explained():
    corpus = Corpus("a", "letters", ("one", "two"), ("v",))
    said = "; the tokenizer has 9, and the other rows of the model stay unused"
    for vocab_size in (12, 9):
        tok = SimpleNamespace(**vars(TOK) | {"vocab_size": vocab_size})
        text = TokenizedCorpus(corpus, tok, *files(500, 50), np.ones(9))
        assert text_rows(text, 12, 1_000.0)["vocabulary"].endswith(said)


def test_each_of_several_texts_has_a_row():
    first, second, validation = files(500, 4_000, 50)
    corpora = Corpus("a", "letters", ("one", "two"), ("v",)), Corpus("b", "digits", ("1" * 9,), ("v",))
    sources = Mixture(corpora, (0.8, 0.2))
    text = TokenizedCorpus(sources, TOK, TokenMixture((first, second), sources.shares), validation, np.ones(9))
    rows = text_rows(text, 9, 1_000.0)
    assert list(rows) == ["text", "text 1", "text 2", "vocabulary"]
    assert rows["text"] == "2 texts: 3 documents, 13.5 kB to train on, 150 bytes for validation"
    assert rows["text 1"] == "80%: letters: 2 documents, 500 tokens to train on, read 1.6 times"
    assert rows["text 2"] == "20%: digits: 1 document, 4,000 tokens to train on, read 0.05 times"
    assert text_rows(text, 9, 1e6)["text 1"].endswith("read 1,600 times")
    judged = Mixture(tuple(replace(each, validation_text="numerals") for each in corpora), (0.8, 0.2))
    apart = text_rows(replace(text, corpus=judged), 9, 1_000.0)
    assert apart["text"].startswith("2 texts; validation: numerals: 3 documents, ")
    assert apart["text 1"] == rows["text 1"]
    assert text_rows(text, 9, None)["text 2"].endswith("4,000 tokens to train on")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "gpt2", "context": 64}, "trains 64 of the 256 rows of the table of positions"),
        ({"model": "gpt2"}, ""),
        ({"model": "gpt2", "context": 64, "init": "runs/a"}, ""),
        ({"context": 64}, ""),
    ],
)
def test_rows_of_positions_that_no_sequence_reaches_are_mentioned(changes, said):
    asked = TrainConfig(**{"steps": 5, "warmup": 9} | changes, size="nano")
    model = models.skeleton(asked.model, "nano", context_length=256)
    settings = choose_settings(asked, model, costs.Rates(products=1e11, elements=1e9), 1_000_000)
    corpus = Corpus("a", "letters", ("one", "two"), ("v",))
    text = TokenizedCorpus(corpus, TOK, *files(5_000, 50), np.ones(9))
    rows = _model_rows(Plan(settings, model, text, costs.Rates(products=1e11, elements=1e9), "", 0))
    assert (said in rows["positions"]) if said else not rows["positions"]
    assert "after 9 steps, which the run does not reach" in rows["step"]
