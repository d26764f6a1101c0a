"""The figures of xz and of counting for the text of a run."""

from __future__ import annotations

from unittest.mock import Mock

from minigrad.errors import InputError
from minigrad.evaluate import rivals
from minigrad.training.reporting.finish import baselines


def test_the_figures_are_those_of_xz_and_of_counting(make, monkeypatch, capsys):
    plan = make().plan
    parts = plan.text.corpus.split()
    train, validation = parts.train, parts.validation
    figure = rivals.xz_bits_per_byte(train, validation)
    assert baselines(plan) == (figure, "", rivals.ngram_bits_per_byte(train, validation, rivals.ORDER))
    assert "compressing the same text with xz, and counting its bytes ... " in capsys.readouterr().out
    monkeypatch.setattr(rivals, "MOST_BYTES", plan.text.train.num_bytes // 2)
    some = [*plan.text.corpus.excerpt(rivals.MOST_BYTES)]
    assert 0 < len(some) < len(train)
    figure = rivals.xz_bits_per_byte(some, validation)
    assert baselines(plan) == (figure, "", rivals.ngram_bits_per_byte(some, validation, rivals.ORDER))


def test_a_missing_figure_has_a_reason(make, monkeypatch):
    assert baselines(make(minutes=1e-5).plan) == (None, "it would have taken about 0s of the 0s", None)
    monkeypatch.setattr(rivals, "xz_bits_per_byte", lambda *_: None)
    assert baselines(make().plan)[:2] == (None, "this Python lacks lzma")


def test_a_run_ends_although_its_text_cannot_be_read_again(make, monkeypatch):
    plan = make().plan
    monkeypatch.setattr(type(plan.text.corpus), "excerpt", Mock(side_effect=InputError("the text changed")))
    assert baselines(plan) == (None, "its text cannot be read again: the text changed", None)
