"""The variants of Muon do what they are named for, survive a kill as part of a run, and a soft cap caps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from benchmarks.evaluation.one_run import make, read_result
from benchmarks.evaluation.studies import nano_muon
from benchmarks.evaluation.studies.nano_muon import CAP, Changed, VariantOfMuon, polar
from benchmarks.evaluation.study import ROOT
from minigrad import Tensor, nn, no_grad
from minigrad.constants import IGNORE
from minigrad.errors import InputError
from minigrad.kernels.gemm import backend as products
from minigrad.optim.muon import orthogonalise
from models.vidya_v2 import VidyaV2Config
from tests.benchmarks.evaluation.studies.toy import toy_study
from tests.killed_runs import Killed, kill, stop
from tests.small_runs import quick_runs

FILE = ROOT / "benchmarks/evaluation/studies/nano_muon.py"
SHAPE = {"vocab_size": 13, "num_layers": 1, "width": 12, "num_heads": 3, "num_kv_heads": 1, "head_dim": 4}
ARM = f"""
model = "{FILE}:Changed"
attributes = {{ parts = ["equal rows", "cautious decay"] }}
"""


def arm(*parts: str) -> Any:
    model = type("Arm", (Changed,), {"parts": parts})(VidyaV2Config(**SHAPE, feed_forward=20))
    model.initialise(1)
    return model


@pytest.mark.parametrize("shape", [(96, 240), (240, 96), (96, 96)])
@pytest.mark.parametrize("decay", [0.01, 0.1, 1.0, 5.0])
def test_rounded_products_do_not_let_a_few_large_directions_explode(shape: tuple[int, int], decay: float) -> None:
    u, _, v = np.linalg.svd(np.random.default_rng(0).normal(size=shape), full_matrices=False)
    given = (u * np.exp(-decay * np.arange(96))) @ v
    products.use(precision="bfloat16")
    try:
        assert np.linalg.norm(polar(given.astype(np.float32)), 2) < 1.2
    finally:
        products.use()


@pytest.mark.parametrize("shape", [(6, 40), (40, 6)])
def test_polar_express_leaves_singular_values_near_one(shape: tuple[int, int]) -> None:
    u, _, v = np.linalg.svd(np.random.default_rng(0).normal(size=shape), full_matrices=False)
    wanted = (u * np.geomspace(1, 1e-2, 6)) @ v
    values = np.linalg.svd(polar(wanted.astype(np.float32) * 1e-3), compute_uv=False)
    assert 0.85 < values.min() < values.max() < 1.15


@pytest.mark.parametrize("spread", [0.0, 1.0, 2.0])
def test_updates_of_polar_express_are_larger_by_a_tenth_to_a_fifth(spread: float) -> None:
    draw = np.random.default_rng(0)
    given = draw.normal(size=(96, 256)) * np.exp(spread * draw.normal(size=(96, 1)))
    larger, usual = (np.linalg.norm(each(given.astype(np.float32))) for each in (polar, orthogonalise))
    assert 1.1 < larger / usual < 1.2


def optimized(parts: tuple[str, ...], **settings: float) -> tuple[nn.Linear, VariantOfMuon]:
    layer = nn.Linear(16, 8, bias=False)
    layer.initialise(1)
    optimizer = VariantOfMuon(layer.parameters(), matrices=[layer.weight], **settings)
    optimizer.parts, optimizer.squares = parts, {id(layer.weight): np.zeros(8, np.float32)}
    return layer, optimizer


def test_equal_rows_move_equally_far_on_average() -> None:
    gradient = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    gradient[4:] = (
        gradient[:4] + gradient[4:] * 0.05
    )  # nearly equal rows in pairs, so that half of the singular values are small
    gradient[0] = 0
    spreads = []
    for parts in ((), ("equal rows",)):
        layer, optimizer = optimized(parts, lr=1e-2, weight_decay=0.0)
        before = layer.weight.data.copy()
        for _ in range(3):
            layer.weight.grad = gradient.copy()
            optimizer.step()
        moved = np.linalg.norm(layer.weight.data - before, axis=1)[1:]
        spreads.append(moved.std() / moved.mean())
    assert spreads[1] < 0.1 * spreads[0]


def test_cautious_decay_shrinks_no_weight_that_the_update_lets_grow() -> None:
    moved = {}
    for parts, decay in (((), 0.0), ((), 50.0), (("cautious decay",), 50.0)):
        layer, optimizer = optimized(parts, lr=1e-3, weight_decay=decay)
        before = layer.weight.data.copy()
        layer.weight.grad = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
        optimizer.step()
        moved[parts, decay] = layer.weight.data - before
    without, with_decay, cautious = moved.values()
    shrinks = without * before < 0
    np.testing.assert_array_equal(cautious[~shrinks], without[~shrinks])
    np.testing.assert_allclose(cautious[shrinks], with_decay[shrinks], atol=2e-7)
    assert not np.allclose(with_decay[~shrinks], without[~shrinks], atol=1e-4)


def test_a_soft_cap_changes_loss_losses_and_logits_alike() -> None:
    model, plain = arm("soft cap"), arm()
    for each in (model, plain):
        each.head().data *= 200
    rng = np.random.default_rng(0)
    tokens, targets = rng.integers(0, 13, (2, 7)), rng.integers(0, 13, (2, 7))
    targets[0, 3] = IGNORE
    with no_grad():
        capped = CAP * np.tanh(plain(tokens).data / CAP)
        np.testing.assert_allclose(model(tokens).data, capped, atol=1e-4)
        losses = model.losses(tokens, targets).data
    assert np.abs(plain(tokens).data).max() > 2 * CAP > 2 * np.abs(capped).max() - 1e-3
    chosen = np.take_along_axis(capped, np.where(targets == IGNORE, 0, targets)[..., None], 2)[..., 0]
    exact = np.log(np.exp(capped.astype(np.float64)).sum(-1)) - chosen
    np.testing.assert_allclose(losses, np.where(targets == IGNORE, 0, exact), atol=1e-4)
    assert model.loss(tokens, targets).item() == pytest.approx(losses.sum() / 13, abs=1e-4)
    x, head = Tensor(rng.normal(size=(3, 12)), requires_grad=True), Tensor(rng.normal(size=(13, 12)))
    nano_muon._capped_mean(x, head, np.arange(3)).backward()
    assert np.isfinite(np.asarray(x.grad)).all()


def test_an_unknown_part_and_another_optimizer_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models.FAMILIES, "vidya-v2", models.FAMILIES["vidya-v2"])  # which an arm replaces
    with pytest.raises(InputError, match="unknown part 'cap'"):
        arm("cap")
    study, job = toy_study(tmp_path, ARM, "--optimizer adamw")
    with quick_runs(), pytest.raises(InputError, match="variants of Muon, and the run has AdamW"):
        make(study, job, tmp_path / "refused")


def test_a_killed_run_goes_on_with_its_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models.FAMILIES, "vidya-v2", models.FAMILIES["vidya-v2"])
    study, job = toy_study(tmp_path, ARM, "--optimizer muon")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with quick_runs():
        make(study, job, whole)
        stop(monkeypatch, 8, kill)
        with pytest.raises(Killed):
            make(study, job, killed)
        make(study, job, killed)
    found = [read_result(place) for place in (whole, killed)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0]["documents"] == found[1]["documents"]
