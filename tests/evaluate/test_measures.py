"""Sums of losses: of the whole text, by position, by document, by repetition, and per word."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minigrad.autograd.tensor import Tensor
from minigrad.constants import IGNORE
from minigrad.data.tokens import reading
from minigrad.data.tokens.documents import Documents
from minigrad.errors import InputError
from minigrad.evaluate import measures
from minigrad.evaluate.measures import LossSum, Words, perplexity, token_losses
from minigrad.nn.language_model import LanguageModel

ROW = np.array([0, 1, 2, 1, 2, 1, 0, 3, 3, 0])  # two documents, of 5 tokens and of 2
BYTES = np.array([0, 1, 2, 4])


class Counting(LanguageModel):
    """A model whose loss of a target is its token and a hundredth for each token that it was predicted from."""

    def __init__(self) -> None:
        pass

    def losses(self, tokens, targets, *, layout=None):
        return Tensor(np.where(targets == IGNORE, 0.0, targets + 0.01 * (layout.positions + 1)))


@pytest.fixture
def losses():
    return token_losses(Counting(), Documents(ROW, 4).spans(), BYTES, context=4, overlap=0.5)


def test_each_token_has_its_loss_its_bytes_and_its_document(losses):
    read = [1, 2, 3, 4, 3, 4, 1, 2, 3]  # the second sequence of the first document begins with 2 known tokens
    assert losses.read.tolist() == read
    assert losses.nats.tolist() == pytest.approx([token + 0.01 * n for token, n in zip(ROW[1:], read, strict=True)])
    assert losses.num_bytes.tolist() == BYTES[ROW[1:]].tolist()
    assert losses.document.tolist() == [0] * 6 + [1] * 3
    assert losses.repeated.tolist() == [False, False, False, True, True, False, False, False, False]


def test_a_beginning_of_its_own_is_given_and_costs_nothing():
    begin, end = 2, 0
    row = np.array([begin, 1, 1, end, begin, 3, end])
    found = token_losses(Counting(), Documents(row, 9).spans(), BYTES, context=9, overlap=0.5)
    assert found.nats.tolist() == pytest.approx([1.01, 1.02, 0.03, 3.01, 0.02])
    assert found.num_bytes.tolist() == [1, 1, 0, 4, 0]
    assert found.document.tolist() == [0, 0, 0, 1, 1]
    found = token_losses(Counting(), reading.spans("windows", row, 9 - 3), BYTES, context=9, overlap=0.5)  # as one text
    assert found.num_bytes.tolist() == BYTES[row[1:]].tolist()
    assert found.document.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_model_with_damaged_weights_is_refused():
    class Damaged(Counting):
        def losses(self, tokens, targets, *, layout=None):
            return Tensor(np.full(len(targets), np.nan))

    with pytest.raises(InputError, match="losses are not finite: its weights are damaged"):
        token_losses(Damaged(), Documents(ROW, 4).spans(), BYTES, context=4, overlap=0.5)


def test_parts_add_up_to_the_whole(losses):
    whole = measures.whole(losses)
    assert (whole.tokens, whole.num_bytes) == (9, int(BYTES[ROW[1:]].sum()))
    for parts in (
        measures.by_repetition(losses),
        measures.by_position(losses),
        measures.by_document(losses, ["one\ntwo", "\n  three"]),
    ):
        assert sum(part.tokens for part in parts) == whole.tokens
        assert sum(part.num_bytes for part in parts) == whole.num_bytes
        assert sum(part.nats for part in parts) == pytest.approx(whole.nats)
    assert [part.name for part in measures.by_document(losses, ["one\ntwo", "\n  three"])] == ["one", "three"]
    assert [(part.name, part.tokens) for part in measures.by_position(losses)] == [("1", 2), ("2", 2), ("3 to 4", 5)]
    assert measures.by_repetition(losses)[0].tokens == 2


def test_positions_end_with_the_context():
    found = token_losses(Counting(), Documents(np.arange(30) % 29, 11).spans(), np.ones(29), context=11, overlap=0.0)
    assert [(part.name, part.tokens) for part in measures.by_position(found)][3:] == [("5 to 8", 11), ("9 to 11", 6)]


def test_units():
    part = LossSum("", tokens=4, num_bytes=2, nats=math.log(2) * 8)
    assert part.bits_per_byte == pytest.approx(4)
    assert part.loss == pytest.approx(math.log(2) * 2)
    assert perplexity(part.nats, 4) == pytest.approx(4)
    assert perplexity(part.nats, 0) == perplexity(1e6, 1) == math.inf
    assert math.isnan(LossSum("", 0, 0, 0.0).loss)
    assert math.isnan(LossSum("", 1, 0, 1.0).bits_per_byte)
    assert math.isnan(LossSum("", 1, -1, 1.0).bits_per_byte)  # the end of a text alone, with byte fallback


def test_words_of_wikitext_are_counted_with_the_ends_of_lines():
    """As papers count them: every line of the file, blank ones too, ends with a word <eos>."""
    text = " \n = Robert Boulter = \n \n Robert Boulter is an English film actor . \n"
    words = Words.of([text])
    assert words.words + words.lines == sum(len([*line.split(), "<eos>"]) for line in text.splitlines())
    assert Words.of(["no line end"]) == Words(3, 1)
