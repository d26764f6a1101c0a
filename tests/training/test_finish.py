"""The end of a run."""

from __future__ import annotations

from minigrad.training.finish import finish


def test_the_result_and_how_to_repeat_it_are_printed(make, capsys):
    run = make()
    run.folder.path.mkdir()
    run.step, run.budget.decay = 20, [(15, 24), (18, 20)]
    result = finish(run)
    assert (result.steps, result.out) == (20, run.folder.path)
    assert "--steps 20" in result.command
    assert "--decay 15:24,18:20" in result.command
    said = capsys.readouterr().out
    assert f"Held-out: {result.val_bits_per_byte:.2f} bits per byte (lower is better; xz -9e: " in said
    assert f"report   {run.folder.path / 'report.html'}\n" in said
    assert f"repeat   {result.command}\n" in said
