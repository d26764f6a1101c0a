"""Layouts: the rows and positions of a rectangular batch."""

from __future__ import annotations

from minigrad.nn import Layout


def test_the_layout_of_a_rectangular_batch() -> None:
    layout = Layout.rectangular(2, 3, past=4)
    assert layout.offsets.tolist() == [0, 3, 6]
    assert layout.positions.tolist() == [4, 5, 6, 4, 5, 6]


def test_a_batch_may_be_empty() -> None:
    assert Layout.rectangular(0, 3).offsets.tolist() == [0]
    empty = Layout.rectangular(2, 0)
    assert (empty.offsets.tolist(), empty.positions.tolist()) == ([0, 0, 0], [])
