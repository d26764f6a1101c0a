"""The end of a run: the comparison with xz, the report, and the command that repeats it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from minigrad.distributed.world import ALONE, World, mpiexec
from minigrad.errors import InputError
from minigrad.evaluate import rivals
from minigrad.options import flag_of
from minigrad.system import forks, hardware
from minigrad.system.terminal import command, phase, say
from minigrad.system.units import format_bytes, format_seconds
from minigrad.training.budget import write_decay
from minigrad.training.folder import metrics
from minigrad.training.folder.checkpoint import QuickEvaluation
from minigrad.training.folder.record import NOT_STORED, REPORT, TrainResult
from minigrad.training.planning.plan import Plan
from minigrad.training.report import one_run
from minigrad.training.run import Finding, Run, joined
from minigrad.training.settings import TrainConfig
from minigrad.training.validation import evaluate, score_of_test


def finish(run: Run) -> TrainResult | None:
    """Compare with xz, write the report, and print the result and how to repeat it; None in the other processes."""
    score, tested = run.score or evaluate(run, everything=True), score_of_test(run)
    test = {"test_loss": tested.loss, "test_bits_per_byte": tested.bits_per_byte} if tested else {}
    with run.evaluating():
        findings = [found for guest in run.guests if (found := guest.examine(run))]
    if run.world.rank > 0:
        return None
    settings, folder, lines = run.settings, run.folder, metrics.read(run.folder.path)
    xz, no_xz, counted = baselines(run.plan)
    fields = [settings.set or "", *(f"{name}={value}".lower() for name, value in run.plan.departures.items())]
    changes = ",".join(filter(None, fields)) or None
    size = folder.record.settings["size"] if settings.init else settings.size  # a start has a shape of its own
    ended = replace(settings, size=size, steps=run.step, decay=write_decay(run.budget.decay), set=changes)
    repeat = repeat_command(ended, folder.path, folder.record.stages, folder.record.decays, run.world)
    result = TrainResult(
        out=folder.path,
        steps=run.step,
        tokens=run.plan.tokens_before(run.step),
        loss=lines[-1]["loss"] if lines else math.nan,
        val_loss=score.loss,
        val_bits_per_byte=score.bits_per_byte,
        xz_bits_per_byte=xz,
        seconds=run.seconds(),
        command=repeat,
        **test,
    )
    figures = {
        "bits_per_byte": score.bits_per_byte,
        "xz_bits_per_byte": xz,
        "no_xz": no_xz,
        "caution": run.plan.caution,
    }
    both = ("loss_repeated", "loss_others")
    copied = {name: getattr(score, name) for name in both}
    ends = {"steps": run.step, "tokens": result.tokens, "command": repeat}
    own = figures | {"ngram_bits_per_byte": counted} | copied | ends | test
    refusal = "minigrad.json has another {} of this run already: give what a guest finds another name, and continue "
    refusal += "the run with --resume"
    figures_of_guests = joined((found.figures for found in findings), own, refusal)
    folder.record.result = own | {name: float(figure) for name, figure in figures_of_guests.items()}
    # Without a report, a run has not ended: after a kill between the two, `--resume` finishes it.
    with contextlib.suppress(OSError):  # on Windows, if a program has it open
        (folder.path / REPORT).unlink()
    folder.write()
    memory = hardware.peak_memory_bytes() + forks.memory_bytes_of_all()
    path = one_run.write_report(
        folder.path,
        record=folder.record,
        samples=run.samples,
        seconds=result.seconds,
        memory=memory,
        sections=[(found.section, found.drawn) for found in findings if found.section],
    )
    _say_result(run, result, findings, memory, path)
    return result


def _say_result(run: Run, result: TrainResult, findings: Sequence[Finding], memory: int, report: Path) -> None:
    if run.profile is not None:
        say(run.profile.table(run.plan.rates.products, len(run.workers.models)))
    say(one_run.compare_with_xz(run.folder.record.result))
    for found in findings:
        if found.verdict:
            say(found.verdict)
    if run.last and (better := describe_best(run.best, run.last, run.folder.best)):
        say(better)
    say(f"{result.tokens:,} tokens in {format_seconds(result.seconds)}, at most {format_bytes(memory)} of memory")
    say(f"report   {report}")
    if run.model.can_generate:
        say(f"write    {command('generate.py', result.out, *([] if run.plan.learns_text else ['--chat']))}")
    say(f"repeat   {result.command}")


def describe_best(best: QuickEvaluation | None, last: QuickEvaluation, folder: Path) -> str:
    """Return a line that names the best model in `folder`, if it is not the `last` one; else ""."""
    if best is None or best.step == last.step:
        return ""
    return (
        f"best     after {best.step:,} steps the model was better, {best.bits_per_byte:.3f} against "
        f"{last.bits_per_byte:.3f} bits per byte on the validation text that is read during training; write with it: "
        f"{command('generate.py', folder)}"
    )


def repeat_command(
    settings: TrainConfig,
    folder: Path,
    stages: Collection[int] = (),
    decays: Collection[str] = (),
    world: World = ALONE,
) -> str:
    """Return the shell command that repeats the run in `folder`, of `settings.steps` steps, in `{folder}-again`.

    `stages` are the steps at which the run had ended before it was extended, `decays` the courses of the decay before
    these ends: each extension adds a `--resume` command. A batch that its processes cannot share evenly, as after a
    change of their number, is repeated in one.
    """
    processes = 1 if (settings.batch or 0) % world.size else world.size
    start = mpiexec(world) if processes > 1 else ""
    (first, decay), *later = itertools.zip_longest([*stages, settings.steps], [*decays, settings.decay], fillvalue="")
    batch = settings.batch and settings.batch // processes
    values = vars(settings) | {"steps": first, "decay": decay or None, "batch": batch}
    left_out = {*NOT_STORED, "minutes", "tokens", *(["pipeline"] if processes == 1 else [])}
    out, words = Path(f"{folder}-again"), list[str]()
    for field in dataclasses.fields(TrainConfig):
        value = values[field.name]
        if field.name in left_out or (value == field.default and field.name not in ("model", "size")):
            continue
        is_short = isinstance(value, float) and float(f"{value:g}") == value
        flag, word = flag_of(field.name), f"{value:g}" if is_short else str(value)
        words += [flag] if value is True else [f"{flag}={word}"] if word.startswith("-") else [flag, word]
    again = [
        start + command("train.py", "--resume", out, "--steps", steps, *(["--decay", decay] if decay else []))
        for steps, decay in later
    ]
    return " && ".join([start + command("train.py", *words, "--out", out), *again])


class Baselines(NamedTuple):
    """Bits per byte of the validation text. A rival that did not run has None; `no_xz` says why xz did not."""

    xz: float | None
    no_xz: str
    ngram: float | None


def baselines(plan: Plan) -> Baselines:
    """Compress and count the text of a run, unless its minutes are too few. Of a long text, a part is read."""
    if reason := plan.too_long_for_rivals():
        return Baselines(None, reason, None)
    corpus = plan.text.corpus
    try:
        validation = corpus.split().validation
        with phase("compressing the same text with xz, and counting its bytes"):
            compressed = rivals.xz_bits_per_byte(corpus.excerpt(rivals.MOST_BYTES), validation)
            counted = rivals.ngram_bits_per_byte(corpus.excerpt(rivals.MOST_BYTES), validation, rivals.ORDER)
    except InputError as error:  # a long text is read from its file again: the run must end all the same
        return Baselines(None, f"its text cannot be read again: {error}", None)
    return Baselines(compressed, "" if compressed is not None else "this Python lacks lzma", counted)
