"""Bits per byte: the loss of a uniform model, and every token predicted once."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import tokenizer
from minigrad.autograd.graph import is_recording
from minigrad.autograd.tensor import Tensor
from minigrad.constants import IGNORE
from minigrad.data.tokens import reading, token_files
from minigrad.data.tokens.documents import Documents
from minigrad.data.tokens.tokenized import token_byte_lengths
from minigrad.evaluate import losses
from minigrad.evaluate.losses import bits_per_byte, evaluate
from minigrad.evaluate.measures import token_losses, whole
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from tests.distributed.rooms import together

TEXTS = ["to be or not to be, that is the question", "größer als π ist 🙂", "whether 'tis nobler in the mind " * 9]
TOK = tokenizer.train(TEXTS * 2, vocab_size=290)
LENGTHS = token_byte_lengths(TOK, TOK.vocab_size)


class Same(LanguageModel):
    """Predicts a uniform distribution, and records the targets."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def losses(self, tokens: Any, targets: Any, *, layout: Layout | None = None) -> Any:
        assert not self.training
        assert not is_recording()
        self.asked += targets[targets != IGNORE].tolist()
        return Tensor(np.where(targets == IGNORE, 0.0, math.log(TOK.vocab_size)))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))


def prepared() -> token_files.TokenFile:
    return token_files.prepare(TEXTS, TOK)


@pytest.mark.parametrize("context", [2, 7, 16, 1000])
@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.9])
def test_a_uniform_model_costs_log2_of_the_vocabulary_for_each_token(context, overlap):
    tokens, model = prepared(), Same()
    spans = reading.spans("packed" if context > 6 else "windows", tokens, min(context, 50))
    scores: list[Any] = [whole(token_losses(model, spans, LENGTHS, context=context, overlap=overlap))]
    assert model.asked == tokens.tokens[1:].tolist()
    if overlap == 0.5:
        model.asked.clear()
        scores.append(evaluate(model, spans, LENGTHS, context=context))
        assert model.asked == tokens.tokens[1:].tolist()
    for score in scores:
        assert score.tokens == len(tokens) - 1
        assert score.loss == pytest.approx(math.log(TOK.vocab_size))
        expected = math.log2(TOK.vocab_size) * score.tokens / sum(len(text.encode()) for text in TEXTS)
        assert score.bits_per_byte == pytest.approx(expected)
    assert model.training


def test_a_limit_evaluates_about_that_many_tokens_spread_over_the_text():
    row = np.arange(100_000) % TOK.used
    spans, model = reading.spans("windows", row.astype(np.uint16), 16), Same()
    score = evaluate(model, spans, LENGTHS, context=16, limit=16_384)
    assert score.tokens == 16_384 // 16 * 8 + 8  # half of each window is scored, of the first one all
    assert evaluate(Same(), spans, LENGTHS, context=16, limit=10**9).tokens == 99_999


def test_processes_share_the_batches(monkeypatch):
    monkeypatch.setattr(losses, "BATCH_TOKENS", 16)
    spans, alone = Documents(prepared(), 16).spans(), Same()

    def shared(world: Any) -> tuple[losses.Score, list[Any]]:
        model = Same()
        return evaluate(model, spans, LENGTHS, context=16, world=world), model.asked

    (first, some), (second, others) = together(2, shared)
    assert first == second
    expected = evaluate(alone, spans, LENGTHS, context=16)
    assert dataclasses.astuple(first) == pytest.approx(dataclasses.astuple(expected))
    assert sorted(some + others) == sorted(alone.asked)
    assert abs(len(some) - len(others)) < len(alone.asked) / 2


def test_the_bytes_are_those_of_the_tokens_that_are_predicted():
    row = np.argsort(LENGTHS)[-9:]  # the first is not the longest
    score = evaluate(Same(), reading.spans("windows", row, 8), LENGTHS, context=8)
    assert score.bits_per_byte == pytest.approx(math.log2(TOK.vocab_size) * 8 / LENGTHS[row[1:]].sum())


def test_training_mode_comes_back_after_an_error():
    class Broken(Same):
        def losses(self, tokens: Any, targets: Any, *, layout: Layout | None = None) -> Any:
            raise ZeroDivisionError

    model = Broken()
    with pytest.raises(ZeroDivisionError):
        evaluate(model, reading.spans("windows", prepared(), 8), LENGTHS, context=8)
    assert model.training


def test_each_token_is_predicted_from_at_least_half_a_window():
    shape: dict[str, Any] = {"num_layers": 2, "width": 16, "head_dim": 8, "feed_forward": 32, "context_length": 64}
    model = models.build("vidya-v2", vocab_size=TOK.vocab_size, init_std=0.5, **shape)
    tokens = prepared()
    row = tokens.tokens.astype(int)
    score = evaluate(model, reading.spans("windows", tokens, 8), LENGTHS, context=8)
    nats = 0.0
    for place in range(1, len(row)):
        start = 0 if place <= 8 else 4 * ((place - 8 + 3) // 4)  # windows of 8 that begin every 4 tokens
        logits = model(row[None, start:place]).data[0, -1].astype(np.float64)
        nats += np.log(np.exp(logits - logits.max()).sum()) - (logits - logits.max())[row[place]]
    assert score.loss == pytest.approx(nats / (len(row) - 1), rel=1e-5)


def test_tokens_that_complete_a_repeated_pair_are_scored_apart():
    shape: dict[str, Any] = {"num_layers": 1, "width": 16, "head_dim": 8, "feed_forward": 32, "context_length": 64}
    model = models.build("vidya-v2", vocab_size=TOK.vocab_size, init_std=0.5, **shape)
    spans = Documents(prepared(), 16).spans()
    score = evaluate(model, spans, LENGTHS, context=16)
    nats: dict[bool, list[float]] = {True: [], False: []}
    for start, length in zip(spans.starts, spans.lengths, strict=True):
        text = spans.row[start : start + length + 1].astype(int)
        for place in range(1, len(text)):
            first = 0 if place <= 16 else 8 * ((place - 16 + 7) // 8)  # windows of 16 that begin every 8 tokens
            window = text[first:place]
            chances = np.exp(model(window[None]).data[0, -1].astype(np.float64))
            pairs = list(itertools.pairwise(text[first : place + 1].tolist()))
            nats[pairs[-1] in pairs[:-1]].append(-np.log(chances[text[place]] / chances.sum()))
    assert score.loss_repeated == pytest.approx(np.mean(nats[True]), rel=1e-5)
    assert score.loss_others == pytest.approx(np.mean(nats[False]), rel=1e-5)
    assert score.tokens == len(nats[True]) + len(nats[False])
    assert len(nats[True]) > 50


def test_a_text_without_repeated_pairs_has_no_loss_of_them():
    score = evaluate(Same(), reading.spans("windows", np.arange(9), 8), LENGTHS, context=8)
    assert math.isnan(score.loss_repeated)
    assert score.loss_others == pytest.approx(score.loss)


def test_documents_are_evaluated_as_if_each_were_the_only_one():
    shape: dict[str, Any] = {"num_layers": 2, "width": 16, "head_dim": 8, "feed_forward": 32, "context_length": 64}
    model = models.build("vidya-v2", vocab_size=TOK.vocab_size, init_std=0.5, **shape)
    together = evaluate(model, Documents(prepared(), 16).spans(), LENGTHS, context=16)
    nats = tokens = 0.0
    for text in TEXTS:
        alone = token_files.prepare([text], TOK)
        score = evaluate(model, reading.spans("windows", alone, 16), LENGTHS, context=16)
        nats, tokens = nats + score.loss * score.tokens, tokens + score.tokens
    assert together.tokens == tokens
    assert together.loss == pytest.approx(nats / tokens, rel=1e-6)


def test_bits_per_byte_of_no_bytes_is_not_a_division_by_zero():
    assert bits_per_byte(0.0, 0) == 0.0
