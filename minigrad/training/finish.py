"""The end of a run: the comparison with xz, the report, and the command that repeats it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from minigrad.system import hardware
from minigrad.system.terminal import command
from minigrad.system.units import format_bytes, format_seconds
from minigrad.training import best, expert_load, metrics
from minigrad.training.budget import write_decay
from minigrad.training.record import stored
from minigrad.training.repeat import repeat_command
from minigrad.training.report import one_run
from minigrad.training.result import TrainResult
from minigrad.training.run import Run


def finish(run: Run) -> TrainResult | None:
    """Compare with xz, write the report, and print the result and how to repeat it; None but in the first process."""
    score = run.score or run.evaluate(everything=True)
    with run.averaged():
        taught = run.plan.lessons.examine(run) if run.plan.lessons else None
    if run.world.rank > 0:
        return None
    settings, folder, lines = run.settings, run.folder, metrics.read(run.folder.path)
    xz, no_xz, counted = run.baseline.wait()
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
    )
    figures: dict[str, Any] = {"bits_per_byte": score.bits_per_byte, "xz_bits_per_byte": xz, "no_xz": no_xz}
    copying = {name: getattr(score, name) for name in ("loss_repeated", "loss_others")}
    copying = {name: value if math.isfinite(value) else None for name, value in copying.items()}
    ends: dict[str, Any] = {"steps": run.step, "tokens": result.tokens, "command": repeat}
    others = {"ngram_bits_per_byte": counted} | copying | ends | (taught.figures if taught else {})
    folder.record.result = figures | others
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
            **figures,
        ),
        samples=run.samples,
        settings=stored(settings),
        command=repeat,
        sections=[*([taught.section] if taught else []), *expert_load.sections(lines)],
    )
    if run.profile is not None:
        print(run.profile.table(run.plan.rates.products, len(run.replicas.models)))
    print(one_run.compare_with_xz(**figures))
    if taught:
        print(taught.verdict)
    if better := best.describe(run.best, run.step, folder.path):
        print(better)
    print(f"{result.tokens:,} tokens in {format_seconds(result.seconds)}, at most {format_bytes(memory)} of memory")
    print(f"report   {path}")
    print(f"write    {command('generate.py', folder.path)}")
    print(f"repeat   {repeat}", flush=True)
    return result
