"""Rows of tokens beside a frozen matrix: the same model as one whose matrix is changed, and the same gradient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import models
from minigrad import InputError, Tensor, no_grad
from minigrad.adapters import AdaptedEmbedding, adapt, adapt_tokens, merge
from minigrad.adapters.files import save
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
from minigrad.programs.decoder import Decoder
from minigrad.quantised import quantise
from tests.models.tiny import TINY, build, tokens

CHOSEN = (1, 4, 11)
CASES = [*((family, True) for family in TINY), ("vidya-v2", False)]


def with_rows(family: str, is_tied: bool) -> tuple[LanguageModel, LanguageModel]:
    """Return a model with rows of tokens that were learned, and one that has them in its matrices."""
    beside, within = (build(family, dtype="float64", **({} if is_tied else {"tied_head": False})) for _ in range(2))
    beside.freeze()
    adapt_tokens(beside, CHOSEN)
    for seed, (table, theirs) in enumerate(zip(beside.tables(), within.tables(), strict=True)):
        assert isinstance(table, AdaptedEmbedding)
        table.token_adapter.delta.data = np.random.default_rng(seed).normal(size=(3, table.weight.shape[1]))
        theirs.weight.data[list(CHOSEN)] += table.token_adapter.delta.data
    return beside, within


@pytest.mark.parametrize(("family", "is_tied"), CASES)
def test_they_compute_what_a_changed_matrix_computes(family: str, is_tied: bool) -> None:
    """All tokens at once, one after the other, in a loss, and merged."""
    beside, within = with_rows(family, is_tied)
    ids = tokens(0, 2, 9)
    with no_grad():
        wanted = within(ids).data
        np.testing.assert_allclose(beside(ids).data, wanted, atol=1e-10)
        losses = [model.losses(ids[:, :-1], ids[:, 1:]).data for model in (beside, within)]
    np.testing.assert_allclose(*losses, atol=1e-10)
    decoder, cache = Decoder(beside), beside.new_cache(2, 9)
    for place in range(9):
        logits = decoder.step(ids[:, place], cache)
    np.testing.assert_allclose(logits, wanted[:, -1], atol=1e-10)
    merge(beside)
    assert not any(isinstance(table, AdaptedEmbedding) for table in beside.tables())
    for name, array in within.state_dict().items():
        np.testing.assert_allclose(beside.state_dict()[name], array, atol=1e-12)


@pytest.mark.parametrize(("family", "is_tied"), CASES)
def test_their_gradient_is_that_of_the_rows_of_the_whole_matrix(family: str, is_tied: bool) -> None:
    beside, within = with_rows(family, is_tied)
    ids = tokens(0, 2, 9)
    ids[0, :4] = [4, 1, 1, 4]
    for model in (beside, within):
        model.loss(ids[:, :-1], ids[:, 1:]).backward()
    for table, theirs in zip(beside.tables(), within.tables(), strict=True):
        assert isinstance(table, AdaptedEmbedding)
        assert theirs.weight.grad is not None
        assert table.weight.grad is None
        np.testing.assert_allclose(table.token_adapter.delta.grad, theirs.weight.grad[list(CHOSEN)], atol=1e-10)


def test_rows_that_have_changed_are_merged_anew() -> None:
    beside, within = with_rows("vidya-v2", is_tied=True)
    table, ids = beside.tables()[0], tokens(0, 2, 9)
    assert isinstance(table, AdaptedEmbedding)
    with no_grad():
        for changed in (table.token_adapter.delta, table.weight):
            beside(ids)
            changed.data = 2 * changed.data
            within.head().data = table.token_adapter.merged(table.weight)
            np.testing.assert_allclose(beside(ids).data, within(ids).data, atol=1e-10)
    assert table.copied() == table.factors(Tensor(np.zeros((1, table.weight.shape[1]))))[1].size


@pytest.mark.parametrize("is_taught", [True, False])
def test_tokens_whose_rows_are_equal_are_told_apart(is_taught: bool) -> None:
    """Tokens that a pre-training never reads have equal rows, and no adapter in the layers tells one from another."""
    model = build("vidya-v2")
    model.head().data[1:5] = model.head().data[1]
    adapt(model, 4)
    if is_taught:
        adapt_tokens(model, range(1, 5))
    optimizer, ids = AdamW(model.parameters(), lr=0.05), [[5, 6, 3, 7, 8, 2]]
    for _ in range(40):
        model.loss(ids, [[6, 3, 7, 8, 2, 0]]).backward()
        optimizer.step()
        optimizer.zero_grad()
    with no_grad():
        logits = model(ids).data[0]
    assert (logits.argmax(axis=1).tolist() == [6, 3, 7, 8, 2, 0]) == is_taught
    assert (np.ptp(logits[:, 1:5], axis=1) < 1e-4).all() == (not is_taught)


def test_a_model_with_rows_but_no_adapters_is_saved_once_they_are_merged(tmp_path: Path) -> None:
    beside, within = with_rows("vidya-v2", is_tied=True)
    for write in (beside.save, lambda folder: save(beside, folder, base=folder)):
        with pytest.raises(InputError, match="learned rows of tokens: merge them before it is saved as a model"):
            write(tmp_path)
    assert not [*tmp_path.iterdir()]
    merge(beside)
    beside.save(tmp_path)
    np.testing.assert_allclose(models.load(tmp_path).head().data, within.head().data, atol=1e-12)


def test_what_has_no_such_rows_is_refused() -> None:
    model = build("vidya-v2")
    with pytest.raises(InputError, match="tokens from 0 to 12, and no token 13"):
        adapt_tokens(model, [1, 13])
    with pytest.raises(InputError, match=r"tokens are given by their ids.*, not '<a>'"):
        adapt_tokens(model, ["<a>"])  # type: ignore[list-item]
    adapt_tokens(again := build("vidya-v2").freeze(), [1])
    with pytest.raises(InputError, match="the model trains rows of tokens already"):
        adapt_tokens(again, [2])
    assert again.num_trained() == again.config.width
    quantise(model, "int8")
    with pytest.raises(InputError, match="cannot be trained in a matrix stored as int8; adapt the layers alone"):
        adapt_tokens(model, [1])
