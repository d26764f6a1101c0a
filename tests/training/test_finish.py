"""The end of a run."""

from __future__ import annotations

from minigrad.data import xz
from minigrad.training.finish import xz_baseline
from minigrad.training.plan import Plan


def test_a_missing_figure_of_xz_has_a_reason(make, monkeypatch):
    assert xz_baseline(make().plan)[1] == ""
    assert xz_baseline(make(minutes=1e-5).plan) == (None, "it would have taken about 0s of the 0s")
    monkeypatch.setattr(xz, "xz_bits_per_byte", lambda *_, seconds: None)
    assert xz_baseline(make().plan) == (None, "this Python lacks lzma")


def test_text_that_xz_takes_too_long_for_gets_no_figure(make, monkeypatch):
    monkeypatch.setattr(Plan, "xz_time_limit", lambda _: -1.0)
    assert xz_baseline(make().plan) == (None, "it did not end within 0s")
