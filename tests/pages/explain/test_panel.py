"""Tables of shares, and tokens that were joined."""

from __future__ import annotations

import re

import numpy as np

from minigrad.pages.explain.panel import Pairs, Shares, show_panel
from minigrad.pages.explain.tokens import TokenNames


def test_a_table_has_a_row_for_each_layer(tok):
    panel = Shares("Gates <1>", "What & why.", ("a", "b"), {"layer 1": [None, 0.25], "layer 2": [1.0, 0.0]})
    text = show_panel(panel, "name", [], 0, TokenNames(tok))
    assert "<h2 id=name>Gates &lt;1&gt;</h2><p>What &amp; why.</p>" in text
    assert re.findall(r"<th scope=row>(.*?)<td>–<td.*?>(.*?)<tr>", text) == [("layer 1", "25%")]
    assert re.findall(r'--p:([\d.]+)">([\d.]+%)', text) == [("0.250", "25%"), ("1.000", "100%"), ("0.000", "0%")]


def test_joined_tokens_stand_in_one_box_with_their_similarity(tok):
    joined = np.array([False, True, False, False, True, False])
    panel = Pairs("Merges", "Words.", {"layer 3": (joined, np.array([0, 0.95, 0.1, 0.2, 0.93, 0.5]))})
    text = show_panel(panel, "name", tok.encode("abcdef"), 0, TokenNames(tok))
    assert re.findall(r"<b>(.)<i>\+</i>(.)<small>(.*?)</small></b>", text) == [("a", "b", "0.95"), ("d", "e", "0.93")]
    assert re.findall(r"<span>(.)</span>", text) == ["c", "f"]
    assert "2 of 6 tokens are joined with the one before them." in text


def test_a_pair_whose_first_token_is_not_shown_loses_its_box(tok):
    joined = np.array([False, False, True, False])
    panel = Pairs("Merges", "Words.", {"layer 1": (joined, np.ones(4))})
    text = show_panel(panel, "name", tok.encode("abcd"), 2, TokenNames(tok))
    assert re.findall(r"<span>(.)</span>", text) == ["c", "d"]
    assert "0 of 2 tokens" in text
