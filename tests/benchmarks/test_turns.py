"""Work that is measured in turns: each as often as the others, and none always first."""

from __future__ import annotations

import time

from benchmarks.turns import medians


def test_all_take_as_many_turns_and_change_places() -> None:
    done: list[str] = []
    medians({"a": lambda: done.append("a"), "b": lambda: done.append("b")}, rounds=3)
    assert "".join(done) == "baabbaab"


def test_the_first_turn_does_not_count() -> None:
    pauses = iter([0.05, 0.0, 0.0, 0.0])
    assert medians({"work": lambda: time.sleep(next(pauses))}, rounds=3)["work"] < 0.01
