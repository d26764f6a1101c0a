"""The parts that pages share: their ids do not collide, and they begin with the settings."""

from __future__ import annotations

import re

from minigrad.generation.settings import Sampling
from minigrad.pages.model_page.parts import conversation, editor, sliders


def ids(suffix: str) -> list[str]:
    parts = editor(suffix) + conversation(suffix) + sliders(Sampling(), suffix, penalties=True)
    return re.findall(r"\bid=([\w-]+)", parts)


def test_a_suffix_makes_the_ids_of_two_columns_different() -> None:
    assert [f"{name}-2" for name in ids("")] == ids("-2")
    assert len(set(ids("-1") + ids("-2"))) == 2 * len(ids(""))


def test_sliders_begin_with_the_settings() -> None:
    written = sliders(Sampling(temperature=0.3, top_k=7, seed=12, tokens=34))
    values = dict(re.findall(r"<input id=([\w-]+) [^>]*value=([\d.]+)", written))
    assert values == {"temperature": "0.3", "top-k": "7", "top-p": "0.95", "min-p": "0", "seed": "12", "count": "34"}
    assert "id=presence-penalty " in sliders(Sampling(), penalties=True)
