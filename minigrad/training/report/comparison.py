"""Several runs on one page: what differs between their settings, and their curves over tokens and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigrad.errors import InputError
from minigrad.pages.chart import COLOURS, Series, captioned, key
from minigrad.pages.page import escape, page, scrolling
from minigrad.system.files import distinct_names
from minigrad.system.units import format_seconds
from minigrad.training.folder import metrics
from minigrad.training.folder.record import Record
from minigrad.training.report.curves import EVERY_LINE, even, median_speed, series


@dataclass(frozen=True)
class ComparedRun:
    """A run as it is compared: its name on the page, its record, and its lines of metrics."""

    name: str
    record: Record
    records: Sequence[Mapping[str, Any]]

    @property
    def result(self) -> Mapping[str, Any]:
        """What the run ended with; empty for one that has not ended, or was extended since then."""
        result = self.record.result
        return result if result.get("steps") == self.records[-1]["step"] else {}

    @property
    def bits_per_byte(self) -> float | None:
        """The loss on all validation text at the end, or else on a part of it when it was last evaluated."""
        values = [each["val_bits_per_byte"] for each in self.records if each.get("val_bits_per_byte") is not None]
        return self.result.get("bits_per_byte", values[-1] if values else None)


def read_runs(folders: Sequence[str]) -> list[ComparedRun]:
    """Return the runs in these folders; raises InputError for fewer than two, for more than eight, and for no run."""
    if len(folders) < 2:
        raise InputError("a comparison needs two runs or more; the report of one is report.html in its folder")
    if len(folders) > len(COLOURS):
        raise InputError(f"{len(folders)} runs are too many to tell apart; give at most {len(COLOURS)}")
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise InputError("a run is given twice; give each once")
    runs = []
    for folder, name in zip(folders, distinct_names(folders), strict=True):
        record, records = Record.read(Path(folder)), metrics.read(folder)
        if not records:
            raise InputError(f"{folder} has no line in metrics.jsonl: its first step was not logged")
        runs.append(ComparedRun(name, record, records))
    return runs


def comparison(runs: Sequence[ComparedRun]) -> str:
    """Return the page that compares runs."""
    title = f"{len(runs)} runs compared"
    body = [
        f"<h1>{title}</h1><p>{escape(', '.join(run.name for run in runs))}</p>",
        "<h2>Results</h2>",
        _table("Results of the runs", _results(runs), [run.name for run in runs]),
        *_warnings(runs),
        "<h2>Settings that differ</h2>",
        _differences(runs),
        "<h2>Curves</h2>",
        key([run.name for run in runs]),
        f"<section>{''.join(_figures(runs))}</section>",
    ]
    return page(title, "\n".join(body), _STYLE)


def _results(runs: Sequence[ComparedRun]) -> dict[str, list[str]]:
    """Return the rows of the table of results: what, and its value in each run."""

    def figure(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.3f}"

    last = [run.records[-1] for run in runs]
    tests = [figure(run.result.get("test_bits_per_byte")) for run in runs]
    return {
        "validation, bits per byte": [figure(run.bits_per_byte) for run in runs],
        **({"test, bits per byte": tests} if set(tests) != {"not measured"} else {}),
        "xz on the same text": [figure(run.result.get("xz_bits_per_byte")) for run in runs],
        "n-gram of bytes on the same text": [figure(run.result.get("ngram_bits_per_byte")) for run in runs],
        "parameters": [f"{run.record.parameters:,}" for run in runs],
        "steps": [f"{each['step']:,}" for each in last],
        "tokens": [f"{each['tokens']:,}" for each in last],
        "time": [format_seconds(each["seconds"]) for each in last],
        "tokens/s (median)": [median_speed(run.records) for run in runs],
    }


def _warnings(runs: Sequence[ComparedRun]) -> list[str]:
    """Return paragraphs on why figures of the runs are not comparable, if they are not."""
    found = []
    if len({run.record.validation_text or run.record.text_name for run in runs}) > 1:
        # The hash is of the tokens, so another tokenizer on the same text looks like another text.
        found.append("Their texts or tokenizers are not the same. On different texts the figures do not compare.")
    if len({run.record.hardware for run in runs}) > 1:
        found.append(
            "The runs were made on different machines, or with other threads or environment variables: their times do "
            "not compare."
        )
    if any("bits_per_byte" not in run.result for run in runs):
        found.append("A run that has not ended shows its last evaluation, which is of a part of the validation text.")
    return [f"<p>{escape(sentence)}</p>" for sentence in found]


def _differences(runs: Sequence[ComparedRun]) -> str:
    settings, noted = [], all(run.record.architecture for run in runs)  # which a record need not do
    for record in (run.record for run in runs):
        shape = {f"config {name}": value for name, value in record.architecture.items() if noted}
        machine = {"machine": record.hardware, "arithmetic": record.arithmetic, **record.versions}
        settings.append({"parameters": f"{record.parameters:,}", **record.used, **shape, **machine})
    every = dict.fromkeys(name for each in settings for name in each)
    rows = {name.replace("_", " "): [each.get(name) for each in settings] for name in every}
    rows = {name: values for name, values in rows.items() if any(value != values[0] for value in values)}
    if not rows:
        return "<p>None: the runs were started with the same settings on the same machine.</p>"
    shown = {name: ["none" if value is None else str(value) for value in values] for name, values in rows.items()}
    return _table("Settings that differ", shown, [run.name for run in runs])


def _table(label: str, rows: Mapping[str, Sequence[str]], columns: Sequence[str]) -> str:
    head = "".join(f"<th scope=col>{escape(name)}" for name in columns)
    cells = {name: "".join(f"<td>{escape(value)}" for value in values) for name, values in rows.items()}
    body = "".join(f"<tr><th scope=row>{escape(name)}{values}" for name, values in cells.items())
    return scrolling(label, f"<table><tr><td>{head}{body}</table>")


def _figures(runs: Sequence[ComparedRun]) -> list[str]:
    """Return the charts: the losses over tokens and over time, all else over tokens."""
    every, trained = {run.name: run.records for run in runs}, {run.name: even(run.records) for run in runs}
    axes = ("tokens", "seconds")
    return [
        *(_chart("Validation loss, bits per byte", every, "val_bits_per_byte", over) for over in axes),
        *(_chart("Training loss, bits per byte", trained, "bits_per_byte", over) for over in axes),
        *(_chart(title, every, name, "tokens", unit) for title, name, unit in EVERY_LINE),
    ]


def _chart(title: str, runs: Mapping[str, Sequence[Mapping[str, Any]]], name: str, over: str, unit: float = 1.0) -> str:
    """Return a chart with its caption: the value `name` of each run, over tokens or seconds."""
    lines = [series(run, records, name, unit, over) for run, records in runs.items()]
    most = max((max(line.steps, default=0.0) for line in lines), default=0.0)
    per, words = _scale(over, most)
    scaled = [Series(line.label, [step / per for step in line.steps], line.values) for line in lines]
    caption = f"{title}, over {'time' if over == 'seconds' else over}"
    return captioned(caption, scaled, over=words, legend=False)


def _scale(over: str, most: float) -> tuple[float, str]:
    """Return a unit in which numbers up to `most` are short, and its name."""
    units = {
        "tokens": ((1e6, "million tokens"), (1e3, "thousand tokens"), (1.0, "tokens")),
        "seconds": ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")),
    }[over]
    return next((unit for unit in units if most >= 5 * unit[0]), units[-1])


_STYLE = """
section { display: grid; gap: 1rem 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
th, td { padding: .2rem 1.5rem .2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; } td { max-width: 24rem; overflow-wrap: anywhere; min-width: 6rem; }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; padding: 0; margin: 0 0 1rem; list-style: none; }
.key li { display: flex; align-items: center; gap: .5rem; overflow-wrap: anywhere; } .key svg { width: 1.75rem; }
"""
