"""The end of a run."""

from __future__ import annotations

from minigrad.training.folder.checkpoint import QuickEvaluation
from minigrad.training.reporting.finish import finish
from minigrad.training.run import Run


def test_the_result_and_how_to_repeat_it_are_printed(make, capsys):
    run = make()
    run.step, run.budget.decay = 20, [(15, 24), (18, 20)]
    result = finish(run)
    assert (result.steps, result.out) == (20, run.folder.path)
    assert "--steps 20" in result.command
    assert "--decay 15:24,18:20" in result.command
    said = capsys.readouterr().out
    assert f"Validation: {result.val_bits_per_byte:.2f} bits per byte (lower is better; xz -9e: " in said
    assert f"report   {run.folder.path / 'report.html'}\n" in said
    assert f"repeat   {result.command}\n" in said


def test_the_best_model_is_compared_with_the_last_on_the_same_part_of_the_text(make, monkeypatch, capsys):
    """As after growing: the first evaluation reads a part, the last one everything, and the two are not compared."""
    monkeypatch.setattr(Run, "quick_tokens", 8)
    run = make()
    run.step, run.best = 20, QuickEvaluation(1, 0.1)
    result = finish(run)
    assert run.last.bits_per_byte != result.val_bits_per_byte
    assert f"was better, 0.100 against {run.last.bits_per_byte:.3f} bits per byte" in capsys.readouterr().out
