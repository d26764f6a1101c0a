"""The end of a run: the comparison with xz, the report, and the command that repeats it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from minigrad.evaluate.losses import Score
from minigrad.experts import load
from minigrad.system import hardware
from minigrad.system.terminal import command, say
from minigrad.system.units import format_bytes, format_seconds
from minigrad.training import best
from minigrad.training.budget import write_decay
from minigrad.training.folder.record import stored
from minigrad.training.folder.repeat import repeat_command
from minigrad.training.report import one_run
from minigrad.training.reporting import metrics
from minigrad.training.reporting.baseline import baselines
from minigrad.training.reporting.result import TrainResult
from minigrad.training.reporting.scores import score_of_test
from minigrad.training.run import Run


def finish(run: Run) -> TrainResult | None:
    """Compare with xz, write the report, and print the result and how to repeat it; None but in the first process."""
    score = run.score or run.evaluate(everything=True)
    test = _of_test(run)
    with run.averaged():
        taught = run.plan.lessons.examine(run) if run.plan.lessons else None
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
    folder.record.result = figures | others | (taught.figures if taught else {})
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
        sections=[*([taught.section] if taught else []), *load.sections(lines)],
    )
    if run.profile is not None:
        say(run.profile.table(run.plan.rates.products, len(run.replicas.models)))
    say(one_run.compare_with_xz(**figures, test_bits_per_byte=result.test_bits_per_byte))
    if taught:
        say(taught.verdict)
    if run.last and (better := best.describe(run.best, run.last, folder.path)):
        say(better)
    say(f"{result.tokens:,} tokens in {format_seconds(result.seconds)}, at most {format_bytes(memory)} of memory")
    say(f"report   {path}")
    say(f"write    {command('generate.py', folder.path)}")
    say(f"repeat   {repeat}")
    return result


def _of_test(run: Run) -> dict[str, float]:
    """Return the figures of the test text under the names of their fields; none if the run does not ask for them."""
    score = score_of_test(run)
    return {"test_loss": score.loss, "test_bits_per_byte": score.bits_per_byte} if score else {}


def _copying(score: Score) -> dict[str, float | None]:
    """Return the losses that tell whether the model copies, as JSON can hold them."""
    losses = {name: getattr(score, name) for name in ("loss_repeated", "loss_others")}
    return {name: value if math.isfinite(value) else None for name, value in losses.items()}
