"""The base of language models: what it refuses, the head, the count of multiply-adds, and the folder it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
from minigrad import GraphError, InputError, RunError, ShapeError, no_grad
from minigrad.nn import CheckpointedLayer
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Array
from tests.models.tiny import CONTEXT, TINY, VOCAB, build, tokens

MODELS = {family: build(family).eval() for family in TINY}
every_family = pytest.mark.parametrize("family", TINY)


@every_family
@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        (np.zeros(3, int), ShapeError, r"\(batch, time\), not \(3,\)"),
        (np.zeros((1, 3)), InputError, "integers, not float64"),
        (np.full((1, 3), VOCAB), InputError, f"ids from {VOCAB} to {VOCAB}, but the table has rows 0 to {VOCAB - 1}"),
        (
            np.zeros((1, CONTEXT + 1), int),
            InputError,
            f"{CONTEXT + 1} tokens are more than the model's context of {CONTEXT}",
        ),
    ],
)
def test_tokens_that_cannot_be_used_are_refused(family: str, ids: Array, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MODELS[family](ids)


@every_family
@pytest.mark.parametrize(("wrong", "span"), [(VOCAB, f"0 to {VOCAB}"), (-1, "-1 to 2"), (10**12, f"0 to {10**12}")])
def test_token_ids_out_of_range_are_named_and_leave_a_cache_unchanged(family: str, wrong: int, span: str) -> None:
    model, ids = MODELS[family], tokens(0, 1, 9)
    message = f"ids from {span}, but the table has rows 0 to {VOCAB - 1}"
    whole = model(ids).data
    cache = model.new_cache(1, 9)
    model(ids[:, :4], cache=cache)
    bad = np.array([[0, wrong, 2]])
    for call in (lambda: model(bad), lambda: model(bad, cache=cache), lambda: model.loss(bad, bad)):
        with pytest.raises(InputError, match=message):
            call()
    rest = model(ids[:, 4:], cache=cache).data
    np.testing.assert_allclose(rest, whole[:, 4:], rtol=0, atol=1e-5 * np.abs(whole).max())


@every_family
def test_targets_out_of_range_are_named(family: str) -> None:
    with pytest.raises(InputError, match=f"targets from 1 to {VOCAB} for {VOCAB} classes"):
        build(family).loss(np.array([[1, 2]]), np.array([[1, VOCAB]]))


@every_family
def test_the_loss_of_each_target_is_that_of_its_logits(family: str) -> None:
    model, ids = MODELS[family], tokens(2, 2, 7)
    targets = np.where(tokens(3, 2, 7) < 3, -100, tokens(4, 2, 7))
    logits = model(ids).data.astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -np.take_along_axis(logs, np.maximum(targets, 0)[..., None], -1)[..., 0] * (targets >= 0)
    nats = model.losses(ids, targets).data
    np.testing.assert_allclose(nats, expected, rtol=1e-5, atol=1e-6)
    assert model.loss(ids, targets).item() == pytest.approx(nats.sum() / (targets >= 0).sum(), rel=1e-5)
    with pytest.raises(ShapeError, match=r"one target per token: tokens \(2, 7\), targets \(2, 6\)"):
        model.losses(ids, targets[:, 1:])
    weights = np.cos(np.arange(14)).reshape(2, 7)
    weighted = model.loss(ids, targets, weights=weights).item()
    assert weighted == pytest.approx((weights * nats).sum() / (targets >= 0).sum(), rel=1e-4)
    with pytest.raises(ShapeError, match=r"one weight per target: targets \(2, 7\), weights \(7,\)"):
        model.loss(ids, targets, weights=weights[0])


@every_family
def test_only_the_logits_of_the_last_positions_are_computed_where_these_are_enough(family: str) -> None:
    model, ids = MODELS[family], tokens(1, 2, 7)
    whole = model(ids).data
    for last in (0, 1, 3, 7):
        found = model(ids, last=last).data
        assert found.shape == (2, last, VOCAB)
        np.testing.assert_allclose(found, whole[:, 7 - last :], rtol=0, atol=1e-5 * np.abs(whole).max())
    cache = model.new_cache(2, 7)
    model(ids[:, :2], cache=cache, last=1)
    found = model(ids[:, 2:], cache=cache, last=2).data
    np.testing.assert_allclose(found, whole[:, 5:], rtol=0, atol=1e-5 * np.abs(whole).max())
    for last in (-1, 8):
        with pytest.raises(InputError, match=f"last takes a whole number from 0 to 7.*, not {last}"):
            model(ids, last=last)


def test_targets_of_another_shape_than_the_tokens_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"tokens \(1, 3\), targets \(1, 2\)"):
        MODELS["vidya-v2"].loss(np.zeros((1, 3), int), np.zeros((1, 2), int))


@every_family
@pytest.mark.parametrize("shape", [(1, 0), (0, 3), (0, 0)])
def test_no_tokens_give_no_logits_and_a_loss_of_zero(family: str, shape: tuple[int, int]) -> None:
    ids = np.zeros(shape, int)
    assert MODELS[family](ids).shape == (*shape, VOCAB)
    loss = MODELS[family].loss(ids, ids)
    loss.backward()
    assert loss.item() == 0.0


@every_family
def test_no_tokens_leave_a_cache_unchanged(family: str) -> None:
    cache = MODELS[family].new_cache(2, max_length=8)
    MODELS[family](tokens(0, 2, 3), cache=cache)
    assert MODELS[family](tokens(0, 2, 0), cache=cache).shape == (2, 0, VOCAB)
    assert cache.lengths.tolist() == [3, 3]


@every_family
def test_a_cache_that_is_too_small_is_refused(family: str) -> None:
    with pytest.raises(InputError, match="max_length"):
        MODELS[family](tokens(0, 1, 5), cache=MODELS[family].new_cache(1, max_length=4))


def test_the_head_is_the_embedding_or_a_matrix_of_its_own() -> None:
    tied, own = build("vidya-v2"), build("vidya-v2", tied_head=False)
    assert tied.head() is tied.embedding().weight
    assert own.head() is dict(own.named_parameters())["lm_head.weight"]


@pytest.mark.parametrize("tied", [True, False])
def test_multiply_adds_are_those_of_all_matrices_once_and_of_half_the_context(tied: bool) -> None:
    model = build("vidya-v2", tied_head=tied)
    again = 12 * 8  # the values of the first layer, which are computed for the other layers too
    layer = 2 * 12 * 16 + 2 * 12 * 8 + 3 * 12 * 16  # queries and output, keys and values, feed-forward
    attention = 2 * 4 * 4 * 10 / 2  # scores and weighted values of 4 heads of size 4, over half of 10 tokens
    assert model.macs_per_token(10) == 2 * (layer + attention) + again + VOCAB * 12


def test_a_new_cache_has_the_dtype_of_the_weights_and_by_default_the_context_length() -> None:
    cache: Any = build("gpt2", "float64").new_cache(2)
    assert (cache.keys.dtype, cache.batch_size, cache.max_length) == (np.float64, 2, CONTEXT)


def test_a_saved_folder_has_config_generation_config_and_weights(tmp_path: Path) -> None:
    build("gpt2").save(tmp_path / "new" / "folder")
    config, ids = (
        json.loads((tmp_path / "new" / "folder" / name).read_text(encoding="utf-8"))
        for name in ("config.json", "generation_config.json")
    )
    assert (config["model_type"], config["torch_dtype"]) == ("gpt2", "float32")
    assert ids == {"bos_token_id": 0, "eos_token_id": 0}
    assert models.load(tmp_path / "new" / "folder").num_parameters() == build("gpt2").num_parameters()


def test_a_folder_that_cannot_be_made_is_a_run_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match=r"cannot make the folder .*file"):
        build("gpt2").save(tmp_path / "file")


def test_a_family_without_its_own_embedding_or_layers_is_named() -> None:
    model = LanguageModel()
    with pytest.raises(TypeError, match="LanguageModel has no embedding of its own"):
        model.embedding()
    with pytest.raises(TypeError, match="LanguageModel has no layers of its own"):
        model.hidden(None, None)  # type: ignore[arg-type]
    assert model.measurements() == {}


@every_family
def test_backward_through_a_pass_with_a_cache_is_refused(family: str) -> None:
    model = build(family).eval()
    model.recompute_layers()  # a second forward pass would fill the cache twice
    cache, ids = model.new_cache(1), tokens(0, 1, 6)
    model(ids[:, :2], cache=cache)
    logits = model(ids[:, 2:4], cache=cache)
    assert logits.requires_grad
    for loss in (logits.sum(), model(ids[:, 4:], cache=cache).sum() + model.loss(ids, ids)):
        with pytest.raises(GraphError, match=r"computed with a cache.*without a cache.*no_grad"):
            loss.backward()
    assert cache.lengths.tolist() == [6]
    model.freeze()
    assert not model(ids[:, :2], cache=model.new_cache(1)).requires_grad
    with no_grad():
        assert not model(ids[:, :2], cache=model.new_cache(1)).requires_grad


@every_family
@given(st.lists(st.lists(st.sampled_from([-100, 0, 1, VOCAB - 1]), min_size=5, max_size=5), min_size=2, max_size=2))
def test_the_loss_is_the_mean_over_the_targets_that_count(family: str, targets: list[list[int]]) -> None:
    model, ids, wanted = MODELS[family], tokens(0, 2, 5), np.array(targets)
    logits = model(ids).data.astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    losses = [-log_p[place][target] for place, target in np.ndenumerate(wanted) if target != -100]
    assert model.loss(ids, wanted).item() == pytest.approx(np.mean(losses) if losses else 0, rel=1e-4)


@every_family
def test_frozen_layers_receive_no_gradient_and_the_rest_the_same(family: str) -> None:
    ids = tokens(0, 2, 7)
    whole, frozen = build(family, "float64"), build(family, "float64")
    first = next(module for _, module in frozen.named_modules() if isinstance(module, CheckpointedLayer)).freeze()
    fixed = {id(parameter) for parameter in first.parameters()}
    for recomputed in (False, True):
        for model in (whole, frozen):
            model.recompute_layers(recomputed)
            model.zero_grad()
            model.loss(ids, ids).backward()
        for (name, parameter), other in zip(frozen.named_parameters(), whole.parameters(), strict=True):
            if id(parameter) in fixed:
                assert parameter.grad is None, name
            else:
                np.testing.assert_allclose(parameter.grad, other.grad, rtol=1e-9, atol=1e-12, err_msg=name)
