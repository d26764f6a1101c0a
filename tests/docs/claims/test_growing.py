"""Models grow without changing what they say, and the published way does not."""

from __future__ import annotations

from docs.claims.growing import deepened, grown


def test_a_new_layer_changes_nothing_and_learns() -> None:
    assert deepened() == (True, True)


def test_the_published_way_changes_the_logits_and_leaves_dead_heads() -> None:
    change, dead = grown(naive=True)
    assert change > 0.1
    assert dead == 1
