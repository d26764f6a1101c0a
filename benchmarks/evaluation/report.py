"""What a study shows: tables of differences with intervals and tests, and pictures of them.

python benchmarks/evaluation/report.py STUDY.toml [--runs DIR]      works while runs are still missing
python benchmarks/evaluation/report.py STUDY.toml --pack table.json.gz
python benchmarks/evaluation/report.py STUDY.toml --table table.json.gz
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from minigrad.system import hardware  # isort: skip  (before NumPy)

import numpy as np

from benchmarks.evaluation import intervals
from benchmarks.evaluation.checks import Result, chosen_otherwise
from benchmarks.evaluation.figures import Bar, forest
from benchmarks.evaluation.intervals import Difference, holm
from benchmarks.evaluation.results import Results, chosen_rate, nats, read, read_table, score, write_table
from benchmarks.evaluation.study import Arm, Comparison, Study
from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.formats.json_files import read_json
from minigrad.options import REQUIRED, option, validate
from minigrad.pages.chart import Series, key, line_chart
from minigrad.pages.page import escape, page, scrolling
from minigrad.system.files import write_text
from minigrad.system.terminal import prepare_output, say
from minigrad.system.units import plural
from minigrad.typing import Array

PROGRAM = "benchmarks/evaluation/report.py"
LEAST_PAIRS = 8
"""The fewest pairs of runs after which "no difference" is said."""

_LEVEL = 0.05
_STYLE = """
table { margin: 0 0 1rem; } td, th { padding: .2rem .8rem .2rem 0; white-space: nowrap; } figure { max-width: 44rem; }
.key { columns: 2; padding: 0; list-style: none; } .key svg { display: inline; width: 2rem; margin-right: .5rem; }
"""


class Table(NamedTuple):
    """A table with its head."""

    head: list[str]
    rows: list[list[str]]


Block = str | Table
"""A part of a report: a paragraph, a heading that begins with #, a picture that begins with <, or a table."""


class Compared(NamedTuple):
    """An arm beside the control: its runs, how many pairs these make, and the difference, if there is a pair."""

    arm: Arm
    scores: list[float]
    parameters: int
    pairs: int
    planned: int  # pairs that the study wants
    missing: int  # of these, the ones that are still to be made
    failed: int  # runs of the arm or the control that failed
    both: Difference  # with the error of seeds and documents
    seeds: Difference  # with that of the seeds alone
    spread: float  # the standard deviation of the paired differences: NaN without a pair, infinite with one


def paired(arm: dict[int, Result], control: dict[int, Result], length: int, part: str) -> tuple[Array, Array]:
    """Return the differences of documents in bits (S, D), seed by seed, and the bytes of the documents (D,).

    Raises InputError unless the arm and the control were judged on the same documents.
    """
    seeds = sorted(arm.keys() & control.keys())
    rows = [[np.asarray(each[seed][part][str(length)]) for seed in seeds] for each in (arm, control)]
    sizes = {tuple(row[:, 0]) for each in rows for row in each}
    if len(sizes) != 1:
        raise InputError("an arm and the control were judged on different documents; they cannot be paired")
    ours, theirs = (np.stack([row[:, 2] for row in each]) for each in rows)
    return (ours - theirs) / math.log(2), np.asarray(sizes.pop())


def compare(study: Study, results: Results, comparison: Comparison, length: int, part: str) -> list[Compared]:
    """Return every arm, the control first. An arm without a run is included, because the correction counts it."""
    control = results.of(comparison, study.control)
    found = []
    for arm in sorted(study.arm, key=lambda each: each.name != study.control):
        runs = {seed: each for seed, each in results.of(comparison, arm.name).items() if part in each}
        is_control = arm.name == study.control
        common = [] if is_control else [seed for seed in runs if seed in control and part in control[seed]]
        nothing = Difference(math.nan, math.inf, 0)
        both = seeds = nothing
        spread = math.nan
        if common:
            bits, sizes = paired(runs, {seed: control[seed] for seed in common}, length, part)
            both, seeds = intervals.over_seeds_and_documents(bits, sizes), intervals.over_seeds(bits, sizes)
            spread = seeds.error * math.sqrt(len(common))
        scores = [score(runs[seed], length, part) for seed in sorted(runs)]
        parameters = next((each["parameters"] for each in runs.values()), 0)
        planned = set() if is_control else {*study.seeds_of(arm)} & {*study.seeds_of(study.named(study.control))}
        failed = [job.seed for job, _ in results.failed if comparison.has(job) and job.arm in (arm.name, study.control)]
        counts = len(common), len(planned), len(planned - {*common, *failed}), len(failed)
        found.append(Compared(arm, scores, parameters, *counts, both, seeds, spread))
    return found


def verdict(each: Compared, differs: float, equivalent: float, margin: float, incomplete: bool) -> str:
    """Return what a comparison shows, from its two corrected p-values.

    There is no verdict while runs of any arm are missing: if you stop at the first p-value that you like, you find
    something too often. Nor is there one if runs failed: the others were lucky, and make the arm look too good.
    """
    if each.arm.leaks:
        return "leaks, on purpose"
    if each.failed:
        return f"open: {each.failed} of its runs or of the control's failed"
    if incomplete:
        return "incomplete"
    if each.pairs < 2:
        return "too few pairs"
    within, enough = equivalent < _LEVEL, each.pairs >= LEAST_PAIRS
    if differs < _LEVEL:
        less = f", by less than {margin:g}" if within and enough else ""
        return ("better" if each.both.mean < 0 else "worse") + less
    if within:
        return f"no difference beyond {margin:g}" if enough else f"open: fewer than {LEAST_PAIRS} pairs"
    return "open"


def differences(study: Study, compared: Sequence[Compared], at_end: Collection[str] = ()) -> Table:
    """Return the table of all arms, with p-values that are corrected for the number of arms that were planned.

    `at_end` names the arms whose learning rate was the smallest or the largest that was tried.
    """
    family = [each for each in compared if each.planned >= 2 and not each.arm.leaks]
    tests = [[each.both.p_differs() for each in family], [each.both.p_equivalent(study.margin) for each in family]]
    corrected = {each.arm.name: p for each, *p in zip(family, *map(holm, tests), strict=True)}
    head = ["arm", "runs", "parameters", "bits per byte", "difference", "95%, seeds and documents", "95%, seeds alone"]
    rows = []
    for each in compared:
        spread = f" ± {np.std(each.scores, ddof=1):.4f}" if len(each.scores) > 1 else ""
        mean_score = f"{np.mean(each.scores):.4f}{spread}" if each.scores else ""
        row = [each.arm.name, str(len(each.scores)), f"{each.parameters:,}" if each.scores else "", mean_score]
        if each.arm.name == study.control:
            rows.append([*row, "", "", "", "", "", "the control"])
            continue
        ps = corrected.get(each.arm.name, [1.0, 1.0])
        shown = ["", ""] if each.pairs < 2 or each.arm.leaks else [f"{p:.4f}" for p in ps]
        ends = [_interval(difference) for difference in (each.both, each.seeds)]
        mean = f"{each.both.mean:+.4f}" if each.pairs else ""
        said = verdict(each, ps[0], ps[1], study.margin, any(other.missing for other in compared))
        more = "; its learning rate is an end of those tried" if each.arm.name in at_end else ""
        rows.append([*row, mean, *ends, *shown, said + more])
    return Table([*head, "p, differs", "p, within the margin", "verdict"], rows)


def _interval(difference: Difference) -> str:
    return "{:+.4f} to {:+.4f}".format(*difference.interval()) if difference.freedom else ""


def spreads(compared: Sequence[Compared]) -> Iterator[Block]:
    """Yield how much seeds differ: the scores, and the paired differences."""
    scores = [(len(each.scores), float(np.var(each.scores, ddof=1))) for each in compared if len(each.scores) > 1]
    pairs = [(each.pairs, each.spread**2) for each in compared if each.pairs > 1]
    if scores:
        of_pairs = f", of paired differences {_pooled(pairs):.4f} (of {len(pairs)})" if pairs else ""
        yield (
            f"Standard deviation of seeds, in bits per byte: {_pooled(scores):.4f} within an arm "
            f"(pooled from {len(scores)} arms){of_pairs}."
        )


def spreads_along(study: Study, results: Results, comparison: Comparison) -> Iterator[Block]:
    """Yield how much seeds differ at each evaluation of a training run."""
    curves = [
        [[point[1] for point in each["curve"]] for each in results.of(comparison, arm.name).values()]
        for arm in study.arm
    ]
    curves = [each for each in curves if len(each) > 1 and len({len(curve) for curve in each}) == 1]
    lengths = {len(each[0]) for each in curves}
    if len(lengths) == 1 and comparison.kind == "tokens":
        variances = [(len(each), np.var(each, axis=0, ddof=1)) for each in curves]
        along = [_pooled([(count, each[place]) for count, each in variances]) for place in range(lengths.pop())]
        places = [f"{point[0]:,}" for point in next(iter(_runs(study, results, comparison)))["curve"]]
        yield Table(["tokens read", *places], [["standard deviation of seeds", *(f"{each:.4f}" for each in along)]])


def _pooled(variances: Sequence[tuple[int, float]]) -> float:
    """Return the standard deviation that samples share, from the size and the variance of each."""
    return math.sqrt(np.average([each for _, each in variances], weights=[count - 1 for count, _ in variances]))


def _runs(study: Study, results: Results, comparison: Comparison) -> Iterator[Result]:
    for arm in study.arm:
        yield from results.of(comparison, arm.name).values()


def details(study: Study, results: Results, comparison: Comparison, length: int) -> Table:
    """Return a table of how each arm learns and computes: copying, speed, and the tokens merged in the last step."""
    head = ["arm", "nats of repeated pairs", "of other tokens", "of copied random tokens", "tokens/s", "merged"]
    rows = []
    for arm in study.arm:
        runs = list(results.of(comparison, arm.name).values())
        if not runs:
            continue
        values = np.mean([nats(each, length) for each in runs], axis=0)
        speed = np.mean([each["tokens"] / max(each["seconds"], 1e-9) for each in runs])
        merged = [np.mean(each["merge_ratio"]) for each in runs if each.get("merge_ratio")]
        copied = np.mean([each["copy"] for each in runs])
        share = f"{100 * np.mean(merged):.1f}%" if merged else ""
        rows.append([arm.name, *(f"{each:.3f}" for each in (*values, copied)), f"{speed:,.0f}", share])
    return Table(head, rows)


def at_end(study: Study, results: Results, corpus: str) -> set[str]:
    """Return the arms whose chosen learning rate is the smallest or the largest one tried."""
    tried = {arm.name: study.rates_of(arm) for arm in study.arm if study.tuning}
    chosen = {name: chosen_rate(study, results, name, corpus) for name in tried}
    return {name for name, rates_tried in tried.items() if chosen[name] in (min(rates_tried), max(rates_tried))}


def rates(study: Study, results: Results, corpus: str) -> Table:
    """Return the mean scores by learning rate, and which one was chosen."""
    assert study.tuning is not None
    every = sorted({*study.tuning.rates, *(rate for arm in study.arm for rate in arm.rates)})
    rows = []
    for arm in study.arm:
        found, chosen = results.tuned(arm.name, corpus), chosen_rate(study, results, arm.name, corpus)
        means = [_mean(found.get(rate, [])) for rate in every]
        end = " (an end)" if arm.name in at_end(study, results, corpus) else ""
        rows.append([arm.name, *means, "" if chosen is None else f"{chosen:g}{end}"])
    return Table(["arm", *(f"{rate:g}" for rate in every), "chosen"], rows)


def _mean(scores: Sequence[float]) -> str:
    """Return the mean of the scores of runs, and how many runs failed and have none."""
    finite = [each for each in scores if each < math.inf]
    failed = f"{len(scores) - len(finite)} failed" if len(scores) > len(finite) else ""
    return ", ".join(filter(None, (f"{np.mean(finite):.4f}" if finite else "", failed)))


def blocks(study: Study, results: Results, begun: dict[str, str]) -> Iterator[Block]:
    """Yield the parts of a report."""
    finished, wanted = len(results.finished), study.count()
    yield f"# {study.question}"
    if finished + len(results.failed) < wanted:
        yield f"**Incomplete: {finished} of {wanted} runs are finished. The figures below may change.**"
    facts = [f"Study {study.path.name}, hash {study.digest()}, {begun.get('committed', 'commit unknown')}"]
    facts += sorted({f"code {each['code']}, {each['hardware']}, {each['arithmetic']}" for each in results.finished})
    hours = sum(each["seconds"] for each in results.finished) / 3600
    count = f"{finished} of {wanted} runs finished, {len(results.failed)} failed, {hours:.2f} hours of one core"
    yield ". ".join(facts) + f". {count}."
    if study.tuning is not None:
        for corpus in study.corpora:
            yield f"## Learning rates, {corpus}: bits per byte after {study.tuning.tokens:,} tokens"
            yield rates(study, results, corpus)
    for comparison in study.comparisons():
        if any(_runs(study, results, comparison)):
            yield from _of(study, results, comparison)
    reasons = [(arm, reason) for arm in study.arm for reason in (arm.unequal_parameters, arm.own_order) if reason]
    yield from (f"{arm.name}: {reason}" for arm, reason in reasons)
    if results.failed:
        yield "## Failed"
        yield Table(["run", "why"], [[str(job.place), reason] for job, reason in results.failed])


def _of(study: Study, results: Results, comparison: Comparison) -> Iterator[Block]:
    """Yield the parts about one text and one length."""
    corpus, kind, amount = comparison
    is_opened = all("test" in each for each in _runs(study, results, comparison))
    for part, name in (("test", "test"), ("documents", "validation")) if is_opened else (("documents", "validation"),):
        for length in study.judged:
            title = f"{corpus}, {amount:,} {kind}, {name} text, sequences of {length} tokens"
            compared = compare(study, results, comparison, length, part)
            yield f"## {title}"
            yield differences(study, compared, at_end(study, results, corpus))
            shown = [each for each in compared if each.pairs > 1]
            if bars := [Bar(each.arm.name, each.both.mean, *each.both.interval()) for each in shown]:
                yield forest(title, bars, study.margin)
            if part == "documents":
                yield from spreads(compared)
            if part == "documents" and length == study.judged[0]:
                yield from spreads_along(study, results, comparison)
                yield details(study, results, comparison, length)
                yield from chosen_otherwise(study, list(_runs(study, results, comparison)))
                yield _curves(study, results, comparison)


def _curves(study: Study, results: Results, comparison: Comparison) -> str:
    """Return a picture of the validation loss of each arm, the mean of its runs."""
    series = []
    for arm in study.arm:
        curves = [each["curve"] for each in results.of(comparison, arm.name).values()]
        if curves and len({len(each) for each in curves}) == 1:
            mean = np.mean(curves, axis=0)[1:]
            series.append(Series(arm.name, mean[:, 0].tolist(), mean[:, 1].tolist()))
    chart = line_chart("Bits per byte of validation text", series, over="tokens", legend=False)
    return key([each.label for each in series]) + chart


def plan(study: Study) -> str:
    """Return what a study will do, in words."""
    lines = [study.question, ""]
    for arm in study.arm:
        what = ", ".join(filter(None, (arm.flags, arm.model, ", ".join(f"{k}={v}" for k, v in arm.attributes.items()))))
        seeds = plural(len(study.seeds_of(arm)), "seed") if study.comparisons() else ""
        lines.append(f"  {arm.name:<40} {seeds}  {what}".rstrip())
    lines += [f"on {each.corpus}, {each.amount:,} {each.kind}" for each in study.comparisons()]
    if study.tuning:
        shown = ", ".join(f"{rate:g}" for rate in study.tuning.rates)
        lines.append(f"learning rates: {shown}, {plural(study.tuning.seeds, 'seed')} of {study.tuning.tokens:,} tokens")
    hours = f"{study.hours:g} {'hour' if study.hours == 1 else 'hours'}"
    lines.append(f"{study.count()} runs, about {hours} of one core; compared with {study.control}")
    return "\n".join(lines)


def markdown(parts: Sequence[Block]) -> str:
    """Return a report as Markdown, without its pictures."""
    written = []
    for each in parts:
        if isinstance(each, Table):
            rows = [each.head, ["---"] + ["--:"] * (len(each.head) - 1), *each.rows]
            written.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
        elif not each.startswith("<"):
            written.append(each)
    return "\n\n".join(written) + "\n"


def html_page(parts: Sequence[Block]) -> str:
    """Return a report as a web page."""
    written = []
    for each in parts:
        if isinstance(each, Table):
            head = "".join(f"<th>{escape(cell)}</th>" for cell in each.head)
            rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in each.rows)
            written.append(scrolling(each.head[0], f"<table><tr>{head}</tr>{rows}</table>"))
        elif each.startswith("<"):
            written.append(f"<figure>{each}</figure>")
        elif each.startswith("#"):
            level = each.index(" ")
            written.append(f"<h{level}>{escape(each[level + 1 :])}</h{level}>")
        else:
            written.append(f"<p>{escape(each.strip('*'))}</p>")
    return page(str(parts[0])[2:], "\n".join(written), _STYLE)


def write(study: Study, results: Results, folder: Path) -> str:
    """Write report.html and report.md into the folder of a study, and return the second."""
    begun = read_json(folder / "study.json") if (folder / "study.json").exists() else {}
    parts = list(blocks(study, results, begun))
    write_text(folder / "report.html", html_page(parts))
    write_text(folder / "report.md", markdown(parts))
    return markdown(parts)


@dataclass(frozen=True)
class ReportConfig:
    """Which study is reported, and from which results."""

    study: str = option(REQUIRED, "the study: a TOML file", positional=True, value="STUDY")
    round: int | None = option(None, "of a search: which round, from 1", at_least=1, at_most=99, none_means="")
    runs: str | None = option(
        None,
        "the folder of its runs",
        value="DIR",
        none_means="runs/studies/ and its name, or that of the round in runs/searches/",
    )
    table: str | None = option(None, "a table of results in place of the folder", value="FILE", none_means="")
    pack: str | None = option(None, "write all results as one compressed table", value="FILE", none_means="")


def make(config: ReportConfig) -> None:
    """Print the report of a study, write it beside its runs, and write the table that is wanted."""
    validate(config)
    if config.table and (config.pack or config.runs):
        raise InputError("--table reads results in place of a folder: leave out --pack and --runs")
    study, number = Study.read(Path(config.study)), config.round
    if study.round and number not in range(1, len(study.round) + 1):
        raise InputError(f"{study.path} is a search: give --round, from 1 to {len(study.round)}")
    if number and not study.round:
        raise InputError(f"{study.path} has no rounds: leave out --round")
    place = Path("searches", study.path.stem, f"round-{number}") if number else Path("studies", study.path.stem)
    folder = Path(config.runs or "runs" / place)
    results = read_table(Path(config.table), study) if config.table else read(study, folder)
    if not (results.finished or results.failed):
        program = "search.py" if number else "evaluation/run.py"
        raise InputError(
            f"no run in {config.table or folder} has ended; make them with benchmarks/{program} {config.study}"
        )
    if number:
        begun = {each["job"]["arm"] for each in results.finished} | {job.arm for job, _ in results.failed}
        arms = {each.name for each in study.arm} if number == 1 else {study.control, *begun}
        study = study.in_round(number - 1, arms)
    if config.table:
        say(markdown(list(blocks(study, results, {}))))
        return
    say(write(study, results, folder))
    if config.pack:
        write_table(Path(config.pack), results)


def main() -> int:
    """Run the command line and return the exit code."""
    prepare_output()
    hardware.prepare(1)
    parser = Parser(ReportConfig, prog=PROGRAM, description="Print what the runs of a study show.")
    return exit_code(
        PROGRAM, lambda: make(parser.read()[0]), interrupted="interrupted", less_memory="close other programs"
    )


if __name__ == "__main__":
    sys.exit(main())
