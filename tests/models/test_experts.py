"""Models with experts keep the laws of all models: causality, caches, packing, gradients, replicas, files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
from minigrad import InputError
from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch
from minigrad.experts import mixtures
from minigrad.formats.gguf.network import read_network
from minigrad.formats.json_files import read_json
from minigrad.nn import Layout
from minigrad.optim import AdamW
from minigrad.programs.decoder import Decoder
from minigrad.quantised import QuantisedLinear
from minigrad.training.optimizers import matrices_of
from minigrad.training.parallel import Replicas
from minigrad.typing import Array
from tests.models.test_causality import check_cache, check_causality
from tests.models.test_gradients_and_learning import check_gradient
from tests.models.test_packed import assert_same as assert_learned_the_same
from tests.models.test_packed import drawn, learned, padded
from tests.models.tiny import CONTEXT, TOLERANCE, assert_same, build, tokens
from train import forward_backward

FAMILIES = {"gpt2": 1, "vidya-v2": 2}  # the number of experts that each token passes through
MODELS = {
    (family, dtype): build(family, dtype, experts=4, experts_per_token=count, expert_balance=0.1)
    for family, count in FAMILIES.items()
    for dtype in TOLERANCE
}
every_family = pytest.mark.parametrize("family", FAMILIES)


@every_family
@pytest.mark.parametrize("dtype", TOLERANCE)
@given(seed=st.integers(0, 99), chunks=st.lists(st.integers(1, 7), min_size=1, max_size=6))
@settings(max_examples=8)
def test_no_position_depends_on_a_later_token_and_a_cache_gives_what_the_whole_gives(
    family: str, dtype: str, seed: int, chunks: list[int]
) -> None:
    model, ids = MODELS[family, dtype].eval(), tokens(seed, 2, min(sum(chunks), CONTEXT))
    check_causality(dtype, model, ids, min(chunks[0], ids.shape[1]))
    check_cache(dtype, model, ids, chunks)


@every_family
def test_a_decoder_gives_what_the_whole_gives(family: str) -> None:
    model, ids = MODELS[family, "float64"].eval(), tokens(5, 3, 9)
    decoder, cache = Decoder(model), model.new_cache(3)
    steps = np.stack([decoder.step(ids[:, t], cache) for t in range(9)], axis=1)
    assert not decoder.has_program
    assert_same("float64", steps, model(ids).data)


@every_family
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(0, CONTEXT), min_size=1, max_size=4).filter(any))
@settings(max_examples=8)
def test_packed_padded_and_one_by_one_learn_the_same(family: str, seed: int, lengths: list[int]) -> None:
    model, (ids, targets) = MODELS[family, "float64"].train(), drawn(seed, lengths)
    packed = learned(model, (ids, targets, Layout.packed(lengths), 1.0))
    real, alone = max(int((targets != IGNORE).sum()), 1), []
    for first, last in itertools.pairwise(np.cumsum([0, *lengths])):
        wanted = targets[None, first:last]
        alone.append((ids[None, first:last], wanted, None, int((wanted != IGNORE).sum()) / real))
    assert_learned_the_same(packed, learned(model, *alone))
    assert_learned_the_same(packed, learned(model, (*padded(lengths, ids, targets), None, 1.0)))


@every_family
def test_the_gradient_equals_central_differences_with_the_added_loss(family: str) -> None:
    model = build(family, "float64", experts=3, experts_per_token=FAMILIES[family], expert_balance=0.3).train()
    check_gradient(model, tokens(1, 2, 8))
    assert model.added_loss > 0.3


def gradients(model: Any, ids: Array) -> tuple[float, list[Array]]:
    return learned(model, (ids[:, :-1], ids[:, 1:], None, 1.0))


@every_family
def test_recomputed_layers_learn_the_same_and_so_does_the_balance(family: str) -> None:
    model, ids = MODELS[family, "float64"].train(), tokens(2, 3, 10)
    kept, balance = gradients(model, ids), model.added_loss
    model.recompute_layers()
    assert_learned_the_same(gradients(model, ids), kept)
    model.recompute_layers(False)
    assert model.added_loss == balance > 0


@every_family
def test_the_balance_takes_part_in_training_only_and_is_no_part_of_what_is_reported(family: str) -> None:
    model, ids = MODELS[family, "float64"], tokens(3, 2, 9)
    evaluated, training = (model.train(on).loss(ids[:, :-1], ids[:, 1:]).item() for on in (False, True))
    assert training == pytest.approx(evaluated + model.added_loss)
    assert model.added_loss > 0.1
    model(ids)  # its routing must not become a part of a loss in evaluation mode
    assert model.eval().loss(ids[:, :-1], ids[:, 1:]).item() == evaluated
    batch = Batch(ids[:, :-1].reshape(-1), ids[:, 1:].reshape(-1), Layout.rectangular(2, 8))
    assert forward_backward(model.train(), batch, np.array(1.0)) == pytest.approx(evaluated, rel=1e-12)


@every_family
def test_replicas_and_parts_give_the_gradient_of_one(family: str) -> None:
    ids = tokens(4, 1, 60)[0]
    targets = np.where(np.arange(60) % 7 == 3, IGNORE, np.roll(ids, -1))
    batch = Batch(ids, targets, Layout.packed([9, 20, 1, 14, 16]))
    found = []
    for count in (1, 2):
        model = build(family, "float64", experts=4, experts_per_token=2, dropout=0.2)
        replicas = Replicas(model, count, seed=7)
        loss = replicas.run(forward_backward, batch, step=3)
        found.append((loss, [np.array(parameter.grad) for parameter in model.parameters()]))
        assert [sum(load) for load in replicas.measurements().values()] == pytest.approx([1.0, 1.0])
    assert_learned_the_same(*found)


def test_a_added_loss_keeps_the_load_of_the_experts_equal() -> None:
    highest, shape = [], {"experts": 4, "experts_per_token": 1, "init_std": 0.1, "value_residual": False}
    for balance in (0.0, 0.5):
        model = build("vidya-v2", expert_balance=balance, **shape)
        optimizer, ids = AdamW(model.parameters(), lr=0.02, weight_decay=0.0), tokens(3, 4, 20)
        for _ in range(60):
            optimizer.zero_grad()
            model.loss(ids[:, :-1], ids[:, 1:]).backward()
            optimizer.step(max_norm=1.0)
        highest.append(max(map(max, model.measurements().values())))
    assert highest[1] < 0.4 < highest[0]


@every_family
def test_counts_plans_and_matrices_of_a_model_with_experts(family: str) -> None:
    dense, sparse = models.skeleton(family), models.skeleton(family, experts=8, experts_per_token=2)
    blocks = mixtures(sparse)
    each, router = blocks[0].experts[0].num_parameters(), 8 * dense.config.width
    layers = dense.config.num_layers
    assert len(blocks) == layers
    assert sparse.num_parameters() == dense.num_parameters() + layers * (7 * each + router)
    assert sparse.num_active() == dense.num_parameters() + layers * (each + router)
    weights = sum(p.size for p in blocks[0].experts[0].parameters() if p.ndim == 2)
    assert sparse.macs_per_token(64) == dense.macs_per_token(64) + layers * (weights + router)
    assert dense.num_active() == dense.num_parameters()
    experts = {id(p) for block in blocks for p in block.parameters() if p.ndim == 2}
    assert experts <= {id(p) for p in matrices_of(sparse)}
    assert sparse.config.activations_per_token() > dense.config.activations_per_token()


@pytest.mark.parametrize(
    ("family", "changes"), [("gpt2", {}), ("vidya-v2", {}), ("vidya-v2", {"key_shift": False, "value_residual": False})]
)
def test_a_folder_holds_the_experts_under_a_type_that_no_other_program_mistakes(
    family: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    model = build(family, experts=4, experts_per_token=3, expert_balance=0.02, **changes).eval()
    model.save(tmp_path)
    found = models.load(tmp_path).eval()
    assert found.config == model.config
    ids = tokens(0, 1, 9)
    np.testing.assert_array_equal(found(ids).data, model(ids).data)
    assert read_json(tmp_path / "config.json")["model_type"] == ("gpt2-moe" if family == "gpt2" else family)
    with pytest.raises(
        InputError, match=r"config\.json describes experts \(num_local_experts\), which are not written"
    ):
        read_network(tmp_path)


def test_experts_are_quantised(tmp_path: Path) -> None:
    model, ids = build("gpt2", experts=4).eval(), tokens(0, 1, 9)
    model.save(tmp_path)
    quantised = models.load(tmp_path, quantize="int8").eval()
    assert all(isinstance(expert.c_fc, QuantisedLinear) for block in mixtures(quantised) for expert in block.experts)
    assert np.abs(quantised(ids).data - model(ids).data).max() < 0.2 * np.abs(model(ids).data).max()


def test_a_model_with_experts_grows_and_computes_the_same(tmp_path: Path) -> None:
    narrow = {"width": 48, "feed_forward": 40, "vocab_size": 13, "context_length": 16}
    model = models.build("vidya-v2", "nano", experts=3, **narrow).eval()
    model.save(tmp_path)
    wider, ids = models.grow(tmp_path, size="nano").eval(), tokens(0, 2, 9)
    assert (wider.config.width, wider.config.feed_forward, wider.config.experts) == (96, 240, 3)
    assert_same("float32", wider(ids).data, model(ids).data)


def test_more_experts_per_token_than_there_are_are_refused() -> None:
    with pytest.raises(InputError, match=r"experts_per_token \(3\) must be at most experts \(2\)"):
        models.configure("gpt2", experts=2, experts_per_token=3)
    assert models.configure("gpt2", experts_per_token=3).experts == 0
