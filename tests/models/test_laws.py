"""The laws that every language model keeps: causality, caches, batches, gradients, and what is counted and saved."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import models
from minigrad import InputError, ShapeError, Tensor, nn, ops
from minigrad.autograd import gradcheck
from minigrad.nn import set_step
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
from tests.models.tiny import CONTEXT, TINY, VOCAB, WITHOUT_GRADIENT, build, tokens

Array = NDArray[Any]
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
MODELS = {(family, dtype): build(family, dtype).eval() for family in TINY for dtype in TOLERANCE}

every_family = pytest.mark.parametrize("family", TINY)
both = pytest.mark.parametrize("dtype", TOLERANCE)


def logits(model: Any, ids: Array, cache: Any = None) -> Array:
    result: Array = model(ids, cache=cache).data
    return result


def assert_same(dtype: str, got: Array, wanted: Array) -> None:
    allowed = TOLERANCE[dtype] * max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=allowed)


def test_every_family_is_here() -> None:
    assert set(TINY) == set(models.FAMILIES)


def check_causality(dtype: str, model: Any, ids: Array, part: int) -> None:
    whole = logits(model, ids)
    assert_same(dtype, logits(model, ids[:, :part]), whole[:, :part])
    changed = ids.copy()
    changed[:, part:] = (changed[:, part:] + 1) % VOCAB
    assert_same(dtype, logits(model, changed)[:, :part], whole[:, :part])


def check_cache(dtype: str, model: Any, ids: Array, chunks: list[int]) -> None:
    whole = logits(model, ids)
    for sizes in (chunks, [1] * ids.shape[1]):
        cache = model.new_cache(len(ids), max_length=CONTEXT)
        cuts = np.cumsum([0, *sizes]).clip(max=ids.shape[1])
        parts = [logits(model, ids[:, a:b], cache) for a, b in itertools.pairwise(cuts) if a < b]
        assert_same(dtype, np.concatenate(parts, axis=1), whole)


@every_family
@both
@given(seed=st.integers(0, 99), length=st.integers(1, CONTEXT), data=st.data())
@settings(max_examples=12)
def test_no_position_sees_a_later_token(family: str, dtype: str, seed: int, length: int, data: st.DataObject) -> None:
    check_causality(dtype, MODELS[family, dtype], tokens(seed, 2, length), data.draw(st.integers(1, length)))


@every_family
@both
@given(
    seed=st.integers(0, 99), batch_size=st.integers(1, 3), chunks=st.lists(st.integers(1, 7), min_size=1, max_size=6)
)
@settings(max_examples=12)
def test_in_chunks_one_by_one_or_all_at_once(
    family: str, dtype: str, seed: int, batch_size: int, chunks: list[int]
) -> None:
    check_cache(dtype, MODELS[family, dtype], tokens(seed, batch_size, min(sum(chunks), CONTEXT)), chunks)


def test_a_model_that_peeks_and_a_cache_that_forgets_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = MODELS["vidya-v2", "float32"], tokens(0, 1, 9)
    check_causality("float32", model, ids, 4)
    check_cache("float32", model, ids, [4, 5])
    with monkeypatch.context() as patch:
        patch.setattr(nn.KeyValueCache, "advance", lambda self, length: None)
        with pytest.raises(AssertionError):
            check_cache("float32", model, ids, [4, 5])
    attention = ops.attention

    def peeking(*arrays: Any, offsets: Any, key_ranges: Any = None) -> Tensor:
        lengths = np.diff(offsets)
        one_more = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths) + 2
        return attention(*arrays, offsets=offsets, visible=np.minimum(one_more, np.repeat(lengths, lengths)))

    with monkeypatch.context() as patch:
        patch.setattr(ops, "attention", peeking)
        with pytest.raises(AssertionError):
            check_causality("float32", model, ids, 4)


@every_family
@both
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(0, CONTEXT), min_size=1, max_size=4))
@settings(max_examples=10)
def test_a_batch_is_its_texts_one_by_one(family: str, dtype: str, seed: int, lengths: list[int]) -> None:
    model = MODELS[family, dtype]
    texts = [tokens(seed + number, 1, length)[0] for number, length in enumerate(lengths)]
    offsets = np.cumsum([0, *lengths])
    layout = nn.Layout(offsets, np.concatenate([np.arange(length) for length in lengths]))
    together = model.hidden(Tensor(np.concatenate(texts)), layout).data
    for text, (a, b) in zip(texts, itertools.pairwise(offsets), strict=True):
        alone = model.hidden(Tensor(text), nn.Layout.rectangular(1, len(text))).data
        assert_same(dtype, together[a:b], alone)


def gradients_after(model: LanguageModel, *batches: tuple[Array, Array]) -> dict[str, Array]:
    model.zero_grad()
    for ids, targets in batches:
        (model.loss(ids, targets) * (1 / len(batches))).backward()
    return {name: np.array(p.grad) for name, p in model.named_parameters()}


@every_family
def test_accumulated_gradients_are_those_of_the_full_batch(family: str) -> None:
    model, ids = MODELS[family, "float64"], tokens(0, 4, 9)
    full = gradients_after(model, (ids[:, :-1], ids[:, 1:]))
    halves = gradients_after(model, (ids[:2, :-1], ids[:2, 1:]), (ids[2:, :-1], ids[2:, 1:]))
    for name, gradient in full.items():
        np.testing.assert_allclose(halves[name], gradient, rtol=1e-9, atol=1e-12, err_msg=name)


def check_gradient(model: LanguageModel, ids: Array) -> None:
    targets = ids[:, 1:].copy()
    targets[0, 2] = -100
    names = [name for name, _ in model.named_parameters()]

    def loss(*arrays: Tensor) -> Tensor:
        for name, parameter, array in zip(names, model.parameters(), arrays, strict=True):
            assert parameter.shape == array.shape, name
            parameter._data, parameter.node = array.data, array.node
        return model.loss(ids[:, :-1], targets)

    gradcheck.check(loss, *(parameter.data.copy() for parameter in model.parameters()))


@every_family
def test_the_gradient_of_the_whole_model(family: str) -> None:
    check_gradient(build(family, "float64").eval(), tokens(1, 2, 8))


@pytest.mark.parametrize("variant", ["first", "avg_causal", "kv_only", "paper"])
def test_the_gradient_through_merged_tokens(variant: str) -> None:
    model: Any = build("wiola", "float64", atm=variant, atm_threshold=0.5, init_std=0.3).train()
    ids = np.repeat(tokens(1, 2, 4), 2, axis=1)
    check_gradient(model, ids)
    assert max(model.measurements()["merge_ratio"]) > 0


@every_family
def test_every_parameter_receives_a_gradient(family: str) -> None:
    ids = tokens(2, 3, 10)
    for name, gradient in gradients_after(MODELS[family, "float32"], (ids[:, :-1], ids[:, 1:])).items():
        assert np.isfinite(gradient).all(), name
        if name.endswith(WITHOUT_GRADIENT.get(family, ())):
            assert (gradient == 0).all(), name
            continue
        used = gradient[:9] if "wpe" in name else gradient
        assert (used != 0).mean() > 0.9, name


@every_family
@pytest.mark.parametrize("vocab_size", [2_048, 4_096])
def test_the_first_loss_is_that_of_guessing(family: str, vocab_size: int) -> None:
    model = models.build(family, "nano", vocab_size=vocab_size)
    ids = np.random.default_rng(0).integers(0, vocab_size, (2, 33))
    assert model.loss(ids[:, :-1], ids[:, 1:]).item() == pytest.approx(math.log(vocab_size), rel=0.03)


@every_family
def test_one_batch_can_be_learned_by_heart(family: str) -> None:
    model = build(family, init_std=0.1)
    optimizer = AdamW(model.parameters(), learning_rate=0.02, weight_decay=0.0)
    ids = tokens(3, 2, 9)
    for _ in range(150):
        optimizer.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step(max_norm=1.0)
    # Two texts that begin with the same token cannot be told apart there; from two tokens on they can.
    assert loss.item() < 0.25


@every_family
def test_dropout_acts_in_training_only_and_repeats_with_its_step(family: str) -> None:
    model = build(family, dropout=0.3, **({"atm": "off"} if family == "wiola" else {}))
    ids = tokens(4, 1, 8)
    calm = model.eval()(ids).data
    assert model(ids).data.tobytes() == calm.tobytes()
    model.train()
    set_step(model, seed=0, step=1)
    first = model(ids).data
    assert first.tobytes() == model(ids).data.tobytes()
    set_step(model, seed=0, step=2)
    assert (model(ids).data != first).any()
    assert (first != calm).any()


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
def test_tokens_that_cannot_be_used(family: str, ids: Array, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MODELS[family, "float32"](ids)


@every_family
@both
def test_what_is_saved_is_what_is_loaded(family: str, dtype: str, tmp_path: Path) -> None:
    model = build(family, dtype, seed=5)
    model.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["torch_dtype"] == dtype
    loaded = models.load(tmp_path)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    for name, array in loaded.state_dict().items():
        assert array.dtype == dtype
        assert array.tobytes() == model.state_dict()[name].tobytes(), name
    ids = tokens(0, 2, 7)
    assert loaded.eval()(ids).data.tobytes() == model.eval()(ids).data.tobytes()


@pytest.mark.parametrize("family", ["gpt2", "vidya-v2", "wiola"])
def test_a_head_of_its_own_is_saved_and_learns(family: str, tmp_path: Path) -> None:
    model = build(family, tied_head=False)
    assert model.num_parameters() == build(family).num_parameters() + VOCAB * model.config.width
    ids = tokens(0, 2, 9)
    assert (gradients_after(model, (ids[:, :-1], ids[:, 1:]))["lm_head.weight"] != 0).mean() > 0.9
    model.save(tmp_path)
    assert models.load(tmp_path).eval()(ids).data.tobytes() == model.eval()(ids).data.tobytes()


@every_family
@pytest.mark.parametrize("shape", [(1, 0), (0, 3), (0, 0)])
def test_no_tokens_give_no_scores_and_no_loss(family: str, shape: tuple[int, int]) -> None:
    ids = np.zeros(shape, int)
    assert MODELS[family, "float32"](ids).shape == (*shape, VOCAB)
    loss = MODELS[family, "float32"].loss(ids, ids)
    loss.backward()
    assert loss.item() == 0.0


@every_family
def test_no_tokens_leave_a_cache_as_it_was(family: str) -> None:
    cache = MODELS[family, "float32"].new_cache(2, max_length=8)
    logits(MODELS[family, "float32"], tokens(0, 2, 3), cache)
    assert logits(MODELS[family, "float32"], tokens(0, 2, 0), cache).shape == (2, 0, VOCAB)
    assert cache.length == 3


@every_family
def test_a_cache_that_is_too_small(family: str) -> None:
    with pytest.raises(InputError, match="max_length"):
        logits(MODELS[family, "float32"], tokens(0, 1, 5), MODELS[family, "float32"].new_cache(1, max_length=4))
