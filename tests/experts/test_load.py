"""The load of experts in the report: the busiest and the idlest of all layers, and nothing without experts."""

from __future__ import annotations

from typing import Any

import pytest

from minigrad.experts import load
from minigrad.pages.chart import Series


def test_the_busiest_and_the_idlest_expert_of_all_layers_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, draw = list[Series](), load.captioned

    def noted(title: str, series: list[Series], **options: Any) -> str:
        drawn.extend(series)
        return draw(title, series, **options)

    monkeypatch.setattr(load, "captioned", noted)
    records = [
        {"step": 1, "loss": 2.0, "expert_load_0": [0.5, 0.5], "expert_load_1": [0.9, 0.1]},
        {"step": 2, "loss": 2.0},
        {"step": 3, "loss": 2.0, "expert_load_0": [0.25, 0.75], "expert_load_1": [0.5, 0.5]},
    ]
    section = load.section(records)
    assert "busiest expert" in section
    assert drawn == [Series("busiest expert", [1, 3], [1.8, 1.5]), Series("idlest expert", [1, 3], [0.2, 0.5])]
    assert "equal" in section
    assert load._relative(records[0]) == [1.0, 1.0, 1.8, 0.2]


def test_a_model_without_experts_has_no_such_section() -> None:
    assert load.section([{"step": 1, "loss": 2.0}]) == ""
    assert load.section([]) == ""
