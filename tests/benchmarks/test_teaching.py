"""The benchmark of teaching ends in time, and every kind of run is made once before any is made twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import teaching
from benchmarks.teaching import Clock, Kind, compare, pairs, table


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every run take a minute, on a clock of its own; return the names of the runs that are made."""
    now, names = [0.0], list[str]()

    def train(out: Path, *words: object) -> dict[str, Any]:
        names.append(out.name)
        now[0] += 60
        result = {"recall": 0.5, "bits_per_byte": 2.0, **({"recall_reworded": 0.25} if "book" in words else {})}
        return {"before": {"recall": 0.0, "bits_per_byte": 1.0}, "result": result, "seconds": 60.0}

    monkeypatch.setattr(teaching.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(teaching, "train", train)
    return names


def test_what_there_is_no_time_for_is_left_out(made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    kinds = [Kind("a", ("book",)), Kind("b c", ())]
    first, second = compare(kinds, Path("runs"), 3, Clock(3.5))
    assert made == ["a-0", "b-c-0", "a-1"]
    assert (first["seeds"], second["seeds"]) == (2, 1)
    assert first["reworded, %"] == [25, 25]
    assert "reworded, %" not in second
    assert capsys.readouterr().out.splitlines()[2] == (
        "| a | 2 | 0.00 (0.00 to 0.00) | 50.00 (50.00 to 50.00) | 25.00 (25.00 to 25.00) | 2.00 (2.00 to 2.00) | "
        "100.00 (100.00 to 100.00) |"
    )


def test_a_figure_that_a_kind_does_not_have_is_an_empty_cell() -> None:
    found = [{"name": "a", "seeds": 1, "exact, %": [50.0]}, {"name": "b", "seeds": 1, "margin, nats": [1.0]}]
    assert table(found).splitlines()[3] == "| b | 1 |  | 1.00 (1.00 to 1.00) |"


def test_the_book_asks_nothing_twice() -> None:
    book = list(pairs())
    assert len(book) >= 150
    assert len(dict(book)) == len({answer for _, answer in book}) == len(book)
