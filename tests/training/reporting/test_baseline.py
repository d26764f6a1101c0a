"""The figures of xz and of counting, computed beside the training."""

from __future__ import annotations

from minigrad.data import ngram, xz
from minigrad.training.planning.plan import Plan
from minigrad.training.reporting import baseline
from minigrad.training.reporting.baseline import ORDER, Baseline


def test_the_figures_are_those_of_xz_and_of_counting(make, monkeypatch):
    plan = make().plan
    parts = plan.text.corpus.split()
    train, validation = parts.train, parts.validation
    figure = xz.xz_bits_per_byte(train, validation)
    assert Baseline(plan).wait() == (figure, "", ngram.bits_per_byte(train, validation, ORDER))
    monkeypatch.setattr(baseline, "_COUNTED", plan.text.train.num_bytes - 1)
    assert Baseline(plan).wait() == (figure, "", ngram.bits_per_byte(train[::2], validation, ORDER))


def test_a_missing_figure_has_a_reason(make, monkeypatch):
    assert Baseline(make(minutes=1e-5).plan).wait() == (None, "it would have taken about 0s of the 0s", None)
    monkeypatch.setattr(xz, "xz_bits_per_byte", lambda *_, seconds: None)
    assert Baseline(make().plan).wait()[:2] == (None, "this Python lacks lzma")

    def fill_the_memory(*_: object, seconds: float) -> None:
        raise MemoryError

    monkeypatch.setattr(xz, "xz_bits_per_byte", fill_the_memory)
    assert Baseline(make().plan).wait()[:2] == (None, "there was too little memory for it")


def test_text_that_xz_takes_too_long_for_gets_no_figure(make, monkeypatch):
    monkeypatch.setattr(Plan, "xz_time_limit", lambda _: -1.0)
    assert Baseline(make().plan).wait()[:2] == (None, "it did not end within 0s")


def test_a_figure_that_is_not_ready_is_waited_for(make, monkeypatch, capsys):
    asked = []

    def compress(*_: object, seconds: float) -> float:
        while not asked:
            pass
        return 1.5

    monkeypatch.setattr(xz, "xz_bits_per_byte", compress)
    found = Baseline(make().plan)
    alive = found._thread.is_alive
    monkeypatch.setattr(found._thread, "is_alive", lambda: alive() and not asked.append(True))
    assert found.wait()[:2] == (1.5, "")
    assert "compressing the same text with xz ... " in capsys.readouterr().out
