"""What padding and stacks hold."""

from __future__ import annotations

from docs.claims.shapes import scores_used, shrunk_elements, stacked_elements, used


def test_a_stack_holds_the_longest_once_for_each() -> None:
    assert stacked_elements(3) == 3
    assert stacked_elements(1, 2, 5) == 15


def test_only_zeros_at_the_end_are_cut_off() -> None:
    assert shrunk_elements(4) == 16


def test_equal_lengths_waste_nothing() -> None:
    assert used([7, 7]) == scores_used([7, 7]) == 1
    assert (used([1, 3]), scores_used([1, 3])) == (4 / 6, 10 / 18)
