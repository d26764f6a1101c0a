"""The parts that pages share: their ids do not collide, they begin with the settings, and their words can be read."""

from __future__ import annotations

import re

from minigrad.generation.settings import Sampling
from minigrad.pages.model_page.parts import conversation, editor, sliders
from minigrad.pages.model_page.scripts import STYLE
from tests.pages.contrast import contrast


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
    # A browser would move a value that a slider cannot show.
    beyond = sliders(Sampling(temperature=3, top_k=500, top_p=0.333))
    assert "id=temperature type=range min=0 max=3 step=0.05 value=3>" in beyond
    assert "id=top-k type=range min=0 max=500 step=1 value=500>" in beyond
    assert "id=top-p type=range min=0.05 max=1 step=any value=0.333>" in beyond
    assert "id=presence-penalty " in sliders(Sampling(), penalties=True)


def test_white_words_stand_out_from_their_button() -> None:
    rules = [rule for rule in re.findall(r"{([^}]*)}", STYLE.read_text(encoding="utf-8")) if "color: #fff" in rule]
    assert len(rules) == 2
    for rule in rules:
        assert contrast("#fff", re.findall(r"background: (rgb\([\d ]+\))", rule)[0]) >= 4.5
