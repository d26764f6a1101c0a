"""The programs that write are measured by the same pieces of work, and the figures follow from their seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import generation, writers


def test_writing_is_timed_from_the_first_token_and_reading_up_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def begin(prompt: list[int], tokens: int) -> Iterator[int]:
        for number in range(tokens):
            now[0] += 1 if number else len(prompt)
            yield number

    monkeypatch.setattr(writers.time, "perf_counter", lambda: now[0])
    work = writers.pieces(begin)
    assert work["prompt"]() == writers.LONG
    assert work["write"]() == work["far"]() == writers.TOKENS
    assert now[0] == writers.LONG + writers.SHORT + writers.FAR + 2 * writers.TOKENS


class Fake:
    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.turns = seconds, list[str]()

    def turn(self, work: str, *, warm_up: bool) -> None:
        self.turns.append(work)

    def median(self, work: str) -> float:
        return self.seconds[work]


def test_the_figures_are_tokens_per_second_and_ratios() -> None:
    ours = Fake({"write": 1.0, "memory": 0.1, "prompt": 2.0, "sample": 2.0, "together": 8.0, "far": 2.0})
    running = {"minigrad": ours, "torch": Fake({"write": 4.0, "prompt": 3.0})}
    found = {name: generation.run_measure(name, running, 10**8) for name in generation.MEASURES}  # type: ignore[arg-type]
    assert found["write"]["over torch"] == pytest.approx(4)
    assert found["write"]["share"] == pytest.approx(writers.TOKENS * 1e8 / (writers.MEMORY / 0.1))
    assert found["prompt"]["minigrad"] == pytest.approx(writers.LONG / 2)
    assert found["together"]["ratio"] == pytest.approx(writers.SAMPLES / 4)
    assert found["far"]["ratio"] == pytest.approx(0.5)
    assert set(running["torch"].turns) == {"write", "prompt"}
