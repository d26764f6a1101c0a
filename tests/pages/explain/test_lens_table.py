"""The table of the lens has a row for each token and a column for each layer."""

from __future__ import annotations

import re

import numpy as np

from minigrad.pages.explain.lens import Lens
from minigrad.pages.explain.lens_table import agreement, lens_table
from minigrad.pages.explain.tokens import TokenNames


def test_the_final_answer_is_bold_wherever_a_layer_gives_it(tok):
    a, b, c = tok.encode("abc")
    lens = Lens(np.array([[a, a], [b, a], [b, c]]), np.array([[0.125, 0.5], [0.25, 0.75], [1.0, 0.004]]))
    table = lens_table(lens, [c, c], 40, TokenNames(tok))
    assert re.findall(r"<th scope=col>([^<]+)", table) == ["having read", "before all", "layer 1", "layer 2"]
    cells = re.findall(r'<td style="--p:([\d.]+)">(.*?)<small>(.*?)</small>', table)
    assert cells == [
        ("0.12", "a", "12%"), ("0.25", "<b>b</b>", "25%"), ("1.00", "<b>b</b>", "100%"),
        ("0.50", "a", "50%"), ("0.75", "a", "75%"), ("0.00", "<b>c</b>", "0.40%"),
    ]  # fmt: skip
    assert re.findall(r"<i>(\d+)</i> c", table) == ["40", "41"]


def test_the_agreement_with_the_last_layer_is_drawn():
    lens = Lens(np.array([[1, 2], [1, 3], [1, 3]]), np.ones((3, 2)))
    assert agreement(lens).count("<circle") == 3
