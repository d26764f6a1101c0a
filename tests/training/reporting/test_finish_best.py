"""The best model of a run: which it is, and the line that names it."""

from __future__ import annotations

from minigrad.training.folder.checkpoint import QuickEvaluation
from minigrad.training.reporting.finish import describe_best


def test_the_line_names_the_best_model_only_if_it_is_not_the_last(tmp_path):
    last = QuickEvaluation(60, 1.52)
    line = describe_best(QuickEvaluation(40, 1.5), last, tmp_path / "best")
    assert "after 40 steps the model was better, 1.500 against 1.520 bits per byte on the validation text" in line
    assert str(tmp_path / "best") in line
    assert describe_best(last, last, tmp_path / "best") == describe_best(None, last, tmp_path / "best") == ""
