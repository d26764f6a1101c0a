"""Work that is measured in turns: each as often as the others, and none always first."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks import turns
from benchmarks.turns import medians


def test_all_take_as_many_turns_and_change_places() -> None:
    done: list[str] = []
    medians({"a": lambda: done.append("a"), "b": lambda: done.append("b")}, rounds=3)
    assert "".join(done) == "baabbaab"


def test_the_first_turn_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, takes = [0.0], iter([9.0, 1.0, 2.0, 3.0])
    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def work() -> None:
        now[0] += next(takes)

    assert medians({"work": work}, rounds=3) == {"work": 2.0}  # with the first it would be 2.5
