"""Which optimizer a run gets, and the updates of which matrices Muon orthogonalises."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import models
from minigrad.adapters.low_rank import adapt, adapt_tokens
from minigrad.distributed.world import ALONE
from minigrad.optim import SGD, AdamW, Muon
from minigrad.training.optimizers import (
    NAMES,
    bytes_kept,
    kept_elements,
    load_moments,
    matrices_of,
    moments_of,
    optimizer_of,
)
from minigrad.training.planning.choices import choose_optimizer
from minigrad.training.settings import RunSettings
from tests.models import tiny


def test_muon_orthogonalises_the_updates_of_matrices_within_the_layers() -> None:
    model = tiny.build("gpt2", tied_head=False)
    settings: Any = SimpleNamespace(optimizer="muon", weight_decay=0.0, beta1=0.9, beta2=0.95)
    before = {name: parameter.data.copy() for name, parameter in model.named_parameters()}
    optimizer = optimizer_of(model, settings)
    assert isinstance(optimizer, Muon)
    model.loss(tiny.tokens(0, 2, 8), tiny.tokens(1, 2, 8)).backward()
    optimizer.step(1e-3)
    matrices = {name for name, kept in zip(before, optimizer.moments(), strict=True) if len(kept) == 1}
    assert matrices == {name for name in before if name.startswith("h.") and before[name].ndim == 2}
    assert all((model.state_dict()[name] != before[name]).any() for name in matrices)


def test_adamw_leaves_no_matrix_to_muon() -> None:
    settings: Any = SimpleNamespace(optimizer="adamw", weight_decay=0.25, beta1=0.8, beta2=0.99)
    optimizer = optimizer_of(tiny.build("gpt2"), settings)
    assert type(optimizer) is AdamW
    assert {group.weight_decay for group in optimizer.groups} == {0.25}
    assert optimizer.betas == (0.8, 0.99)


def test_sgd_gets_its_momentum_and_decay_and_keeps_one_velocity() -> None:
    model = tiny.build("gpt2")
    settings = RunSettings(optimizer="sgd", weight_decay=0.01, momentum=0.8)
    optimizer = optimizer_of(model, settings)
    assert isinstance(optimizer, SGD)
    assert (optimizer.momentum, optimizer.groups[0].weight_decay) == (0.8, 0.01)
    count = model.num_parameters()
    assert bytes_kept(model, settings, ALONE) == (-4 * count, 4 * 2 * count)  # than AdamW; weights and velocities
    assert kept_elements(model, replace(settings, momentum=0.0)) == 0


def test_what_is_kept_beside_weights_and_gradients_is_what_the_optimizer_holds() -> None:
    model = tiny.build("gpt2")
    for name in NAMES:
        settings: Any = SimpleNamespace(optimizer=name, weight_decay=0.1, beta1=0.9, beta2=0.95, momentum=0.9, ema=None)
        held = sum(array.size for moments in optimizer_of(model, settings).moments() for array in moments)
        assert kept_elements(model, settings) == held


def test_adamw_continues_from_the_moments_of_muon_without_first_moments_that_have_no_second() -> None:
    def optimizer(name: str) -> Any:
        settings: Any = SimpleNamespace(optimizer=name, weight_decay=0.0, beta1=0.9, beta2=0.95)
        return optimizer_of(model, settings)

    model = tiny.build("gpt2")
    muon, adamw = optimizer("muon"), optimizer("adamw")
    model.loss(tiny.tokens(0, 2, 8), tiny.tokens(1, 2, 8)).backward()
    muon.step(1e-3)
    kept = {name: array.copy() for name, array in moments_of(model, muon).items()}
    load_moments(model, adamw, kept, updates=1_000)
    found = moments_of(model, adamw)
    for name, array in found.items():
        has_both = f"{name[:-2]}.v" in kept
        np.testing.assert_array_equal(array, kept[name] if has_both else np.zeros(array.shape))
    before = {name: each.data.copy() for name, each in model.named_parameters()}
    adamw.step(1e-3)
    farthest = max(np.abs(each.data - before[name]).max() for name, each in model.named_parameters())
    assert farthest == pytest.approx(1e-3, rel=0.5)


def test_each_of_several_processes_keeps_all_averages_and_its_share_of_the_moments() -> None:
    model = tiny.build("gpt2")
    size, plain = 4 * model.num_parameters(), RunSettings(optimizer="adamw")
    averaged = replace(plain, ema=0.9)
    for rank, count in ((0, 1), (0, 2), (1, 4)):
        world: Any = SimpleNamespace(rank=rank, size=count)
        before, after = (bytes_kept(model, settings, world) for settings in (plain, averaged))
        assert (before[0], after[0]) == (0, size)  # beyond AdamW's moments
        assert after[1] - before[1] == (size if rank == 0 else 0)


def test_muon_is_chosen_where_it_is_a_small_part_of_a_step() -> None:
    nano, large = models.skeleton("vidya-v2", "nano"), models.skeleton("vidya-v2", "2.0")
    assert [choose_optimizer(nano, tokens, 256) for tokens in (2_048, 128)] == ["muon", "adamw"]
    assert [choose_optimizer(large, tokens, 256) for tokens in (2_048, 65_536)] == ["adamw", "muon"]


def test_muon_does_not_orthogonalise_the_rows_of_single_tokens() -> None:
    model = tiny.build("vidya-v2")
    adapt(model, 2)
    adapt_tokens(model, [1, 4])
    matrices = {id(each) for each in matrices_of(model)}
    names = [name for name, each in model.named_parameters() if id(each) in matrices]
    assert names
    assert all("lora" in name for name in names)
