"""The figure of xz, computed beside the training."""

from __future__ import annotations

from minigrad.data import xz
from minigrad.training.baseline import Baseline
from minigrad.training.plan import Plan


def test_the_figure_is_that_of_xz(make):
    plan = make().plan
    assert Baseline(plan).wait() == (xz.xz_bits_per_byte(*plan.text.corpus.split()), "")


def test_a_missing_figure_has_a_reason(make, monkeypatch):
    assert Baseline(make(minutes=1e-5).plan).wait() == (None, "it would have taken about 0s of the 0s")
    monkeypatch.setattr(xz, "xz_bits_per_byte", lambda *_, seconds: None)
    assert Baseline(make().plan).wait() == (None, "this Python lacks lzma")

    def fill_the_memory(*_: object, seconds: float) -> None:
        raise MemoryError

    monkeypatch.setattr(xz, "xz_bits_per_byte", fill_the_memory)
    assert Baseline(make().plan).wait() == (None, "there was too little memory for it")


def test_text_that_xz_takes_too_long_for_gets_no_figure(make, monkeypatch):
    monkeypatch.setattr(Plan, "xz_time_limit", lambda _: -1.0)
    assert Baseline(make().plan).wait() == (None, "it did not end within 0s")


def test_a_figure_that_is_not_ready_is_waited_for(make, monkeypatch, capsys):
    asked = []

    def compress(*_: object, seconds: float) -> float:
        while not asked:
            pass
        return 1.5

    monkeypatch.setattr(xz, "xz_bits_per_byte", compress)
    baseline = Baseline(make().plan)
    alive = baseline._thread.is_alive
    monkeypatch.setattr(baseline._thread, "is_alive", lambda: alive() and not asked.append(True))
    assert baseline.wait() == (1.5, "")
    assert "compressing the same text with xz ... " in capsys.readouterr().out
