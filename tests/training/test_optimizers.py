"""Which optimizer a run gets, and which matrices Muon turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from minigrad.optim import AdamW, Muon
from minigrad.training.optimizers import optimizer_of
from tests.models import tiny


def test_muon_turns_the_matrices_within_the_layers() -> None:
    model = tiny.build("gpt2", tied_head=False)
    settings: Any = SimpleNamespace(optimizer="muon", weight_decay=0.0)
    before = {name: parameter.data.copy() for name, parameter in model.named_parameters()}
    optimizer = optimizer_of(model, settings)
    assert isinstance(optimizer, Muon)
    model.loss(tiny.tokens(0, 2, 8), tiny.tokens(1, 2, 8)).backward()
    optimizer.step(1e-3)
    second = dict(zip(before, optimizer.moments(), strict=True))
    turned = {name for name, moments in second.items() if not moments[1].any()}
    assert turned == {name for name in before if name.startswith("h.") and before[name].ndim == 2}
    assert all((model.state_dict()[name] != before[name]).any() for name in turned)


def test_adamw_is_the_default() -> None:
    settings: Any = SimpleNamespace(optimizer="adamw", weight_decay=0.25)
    optimizer = optimizer_of(tiny.build("gpt2"), settings)
    assert type(optimizer) is AdamW
    assert optimizer.weight_decay == 0.25
