"""The end of a run: the comparison with xz, the report, and the command that repeats it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minigrad.evaluate.losses import Score
from minigrad.experts import load
from minigrad.system import hardware
from minigrad.system.terminal import command, say
from minigrad.system.units import format_bytes, format_seconds
from minigrad.training.budget import write_decay
from minigrad.training.folder.record import TrainResult, stored
from minigrad.training.folder.repeat import repeat_command
from minigrad.training.folder.state import Best
from minigrad.training.report import one_run
from minigrad.training.reporting import metrics
from minigrad.training.reporting.baseline import baselines
from minigrad.training.run import Finding, Run
from minigrad.training.validation import evaluate, score_of_test


def finish(run: Run) -> TrainResult | None:
    """Compare with xz, write the report, and print the result and how to repeat it; None but in the first process."""
    score = run.score or evaluate(run, everything=True)
    test = _of_test(run)
    with run.evaluating():
        findings = [found for guest in run.guests if (found := guest.examine(run))]
    if run.world.rank > 0:
        return None
    settings, folder, lines = run.settings, run.folder, metrics.read(run.folder.path)
    xz, no_xz, counted = baselines(run.plan)
    ended = replace(settings, steps=run.step, decay=write_decay(run.budget.decay))
    repeat = repeat_command(ended, folder.path, folder.record.stages, folder.record.decays, run.world)
    result = TrainResult(
        out=folder.path,
        steps=run.step,
        tokens=run.tokens_before(run.step),
        loss=lines[-1]["loss"] if lines else math.nan,
        val_loss=score.loss,
        val_bits_per_byte=score.bits_per_byte,
        xz_bits_per_byte=xz,
        seconds=run.seconds(),
        command=repeat,
        **test,
    )
    figures: dict[str, Any] = {"bits_per_byte": score.bits_per_byte, "xz_bits_per_byte": xz, "no_xz": no_xz}
    ends = {"steps": run.step, "tokens": result.tokens, "command": repeat}
    others = {"ngram_bits_per_byte": counted} | _copying(score) | ends | test
    folder.record.result = figures | others
    for found in findings:
        folder.record.result |= found.figures
    folder.write()
    parameters, memory = run.model.num_parameters(), hardware.peak_memory_bytes()
    path = one_run.write_report(
        folder.path,
        summary=one_run.Summary(
            settings.model,
            settings.size,
            settings.data,
            parameters,
            seconds=result.seconds,
            memory=memory,
            ngram_bits_per_byte=counted,
            test_bits_per_byte=result.test_bits_per_byte,
            **figures,
        ),
        samples=run.samples,
        settings=stored(settings),
        command=repeat,
        sections=[*(found.section for found in findings), *load.sections(lines)],
    )
    _say_result(run, findings, one_run.compare_with_xz(**figures, test_bits_per_byte=result.test_bits_per_byte))
    say(f"{result.tokens:,} tokens in {format_seconds(result.seconds)}, at most {format_bytes(memory)} of memory")
    say(f"report   {path}")
    say(f"write    {command('generate.py', folder.path)}")
    say(f"repeat   {repeat}")
    return result


def _say_result(run: Run, findings: Sequence[Finding], verdict: str) -> None:
    """Print how good the model is, by the verdict on its validation text and by the findings of guests."""
    if run.profile is not None:
        say(run.profile.table(run.plan.rates.products, len(run.workers.models)))
    say(verdict)
    for found in findings:
        say(found.verdict)
    if run.last and (better := describe_best(run.best, run.last, run.folder.best)):
        say(better)


def describe_best(best: Best | None, last: Best, folder: Path) -> str:
    """Return a line that names the best model in `folder`, if it is not the `last` one; else "".

    Both were evaluated on the same part of the validation text.

    >>> print(describe_best(Best(40, 1.5), Best(60, 1.52), Path("runs/small/best")))  # doctest: +ELLIPSIS
    best     after 40 steps the model was better, 1.500 against 1.520 bits per byte on ...; write with it: ...small/best
    """
    if best is None or best.step == last.step:
        return ""
    return (
        f"best     after {best.step:,} steps the model was better, {best.bits_per_byte:.3f} against "
        f"{last.bits_per_byte:.3f} bits per byte on the validation text that is read during training; write with it: "
        f"{command('generate.py', folder)}"
    )


def _of_test(run: Run) -> dict[str, float]:
    """Return the figures of the test text under the names of their fields; none if the run does not ask for them."""
    score = score_of_test(run)
    return {"test_loss": score.loss, "test_bits_per_byte": score.bits_per_byte} if score else {}


def _copying(score: Score) -> dict[str, float | None]:
    """Return the losses that tell whether the model copies, as JSON can hold them."""
    losses = {name: getattr(score, name) for name in ("loss_repeated", "loss_others")}
    return {name: value if math.isfinite(value) else None for name, value in losses.items()}
