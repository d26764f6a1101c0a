"""The report of a run: one HTML page that holds text and pictures and opens offline."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minigrad.evaluate.ngram import ORDER
from minigrad.pages.chart import line_chart
from minigrad.pages.page import escape, page
from minigrad.system.files import write_text
from minigrad.system.terminal import fold_blank_lines
from minigrad.system.units import format_bytes, format_count, format_seconds
from minigrad.training.folder.state import Sample
from minigrad.training.report.curves import even, of_family, series
from minigrad.training.reporting import metrics
from minigrad.typing import PathLike

COPIES = 2.2
"""Nats per token that completes a repeated pair: a model that needs no more has learned to copy from its context."""

_COPYING = "Copying from the context, nats per token"
_COPYING_EXPLAINED = (
    "Copying from the context: a validation token completes a repeated pair if it and the token before it stood side "
    "by side earlier in its sequence. A model that has learned to look for the earlier place and to copy what followed "
    f"(an induction head) needs less than about {COPIES} nats for such a token. The curve falls when it learns to."
)
_VALIDATION_EXPLAINED = (
    "Validation: the last point is the loss on all of the validation text, and those before it are on a part of a long "
    "one, which may be easier or harder than the whole: a bend at the end need not be one of the model."
)


class Summary(NamedTuple):
    """The facts at the head of a report."""

    model: str
    size: str
    data: str
    parameters: int
    bits_per_byte: float | None  # of the validation text; None if it was not evaluated
    xz_bits_per_byte: float | None
    seconds: float  # of the whole run so far
    memory: int  # the largest resident memory of the process in bytes; 0 where it is unknown
    no_xz: str = ""  # why xz did not run
    ngram_bits_per_byte: float | None = None  # of counts of the byte after each five
    test_bits_per_byte: float | None = None  # of the test text, if the run judges it


def write_report(
    run: PathLike,
    *,
    summary: Summary,
    samples: Sequence[Sample],
    settings: Mapping[str, Any],
    command: str,
    sections: Sequence[str] = (),
) -> Path:
    """Write report.html into the run folder `run` from its metrics.jsonl, and return its path.

    `settings` becomes a table without None; `command` repeats the run; `sections` of HTML stand below the
    charts. Raises RunError if the file cannot be written.
    """
    records = metrics.read(run)
    title = f"{summary.model} {summary.size}"
    verdict = compare_with_xz(
        summary.bits_per_byte, summary.xz_bits_per_byte, summary.no_xz, summary.test_bits_per_byte
    )
    trained = f"{format_count(summary.parameters)} parameters, trained on {summary.data}"
    body = [
        f"<h1>{escape(title)}</h1><p>{escape(trained)}</p>",
        f"<p class=verdict>{escape(verdict)}</p>",
        _facts(summary, records) if records else "<p>No step was logged.</p>",
        _charts(records, _baselines(summary)) if records else "",
        *sections,
        "<h2>What it wrote</h2>" if samples else "",
        *(_sample(sample) for sample in samples),
        f"<h2>Repeat this run</h2><pre>{escape(command)}</pre>",
        "<h2>Settings</h2><table>",
        *(f"<tr><th>{escape(name)}<td>{escape(value)}" for name, value in settings.items() if value is not None),
        "</table>",
    ]
    path = Path(run) / "report.html"
    write_text(path, page(title, "\n".join(body), _STYLE))
    return path


def compare_with_xz(
    bits_per_byte: float | None,
    xz_bits_per_byte: float | None,
    no_xz: str = "",
    test_bits_per_byte: float | None = None,
) -> str:
    """Return a sentence that compares the model with the compressor xz on the validation text, in bits per byte.

    A model that predicts text can compress it (Shannon 1948), so it can be compared with any compressor. `no_xz` says
    why xz did not run. The figure of the test text follows if it was evaluated.

    >>> compare_with_xz(1.71, 1.8, test_bits_per_byte=1.74)
    'Validation: 1.71 bits per byte (lower is better; xz -9e: 1.80). Test: 1.74.'
    """
    if bits_per_byte is None:
        return "The validation text was never measured."
    beside = f"no figure of xz: {no_xz}" if xz_bits_per_byte is None else f"xz -9e: {xz_bits_per_byte:.2f}"
    test = "" if test_bits_per_byte is None else f" Test: {test_bits_per_byte:.2f}."
    return f"Validation: {bits_per_byte:.2f} bits per byte (lower is better; {beside}).{test}"


def _facts(summary: Summary, records: Sequence[Mapping[str, Any]]) -> str:
    last = records[-1]
    speeds = [each["tokens_per_second"] for each in records if each["tokens_per_second"] is not None]
    facts = {
        "steps": format_count(last["step"]),
        "tokens": format_count(last["tokens"]),
        "time": format_seconds(summary.seconds),
        "tokens/s (median)": format_count(statistics.median(speeds)) if speeds else "unknown",
        "memory (peak)": format_bytes(summary.memory) if summary.memory else "unknown",
    }
    return f"<dl>{''.join(f'<div><dt>{name}<dd>{value}</div>' for name, value in facts.items())}</dl>"


def _sample(sample: Sample) -> str:
    title, text = f"step {sample.step:,}", escape(fold_blank_lines(sample.text))
    return f"<figure><figcaption>{title}</figcaption><pre>{text}</pre></figure>"


def _baselines(summary: Summary) -> list[tuple[str, float]]:
    """Return the figures of xz and of counting that are known, each with its label."""
    figures = {"xz": summary.xz_bits_per_byte, f"{ORDER}-gram of bytes": summary.ngram_bits_per_byte}
    return [(f"{name} {value:.2f}", value) for name, value in figures.items() if value is not None]


def _charts(records: Sequence[Mapping[str, Any]], baselines: Sequence[tuple[str, float]]) -> str:
    losses = [series("training", even(records), "bits_per_byte"), series("validation", records, "val_bits_per_byte")]
    sometimes = (("Context, tokens", "context", 1.0), ("Reward", "reward", 1.0))
    present = [chart for chart in sometimes if any(chart[1] in each for each in records)]
    charts = {
        "Loss, bits per byte": line_chart("Loss, bits per byte", losses, references=baselines),
        **_copying_chart(records),
        **{
            title: line_chart(title, [series(title, records, key, unit)])
            for title, key, unit in (
                ("Learning rate", "learning_rate", 1.0),
                ("Norm of the gradient, before clipping", "gradient_norm", 1.0),
                ("Tokens per second", "tokens_per_second", 1.0),
                ("Memory, MB", "memory_bytes", 1e6),
                *present,
            )
        },
        **{title: line_chart(title, lines) for title, lines in of_family(records).items()},
    }
    figures = (f"<figure><figcaption>{title}</figcaption>{chart}</figure>" for title, chart in charts.items())
    explained = [_VALIDATION_EXPLAINED, *([_COPYING_EXPLAINED] if _COPYING in charts else [])]
    return f"<section>{''.join(figures)}</section>{''.join(f'<p>{words}</p>' for words in explained)}"


def _copying_chart(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the chart of copying under its title; nothing for a run that never measured it."""
    if not any("val_loss_repeated" in record for record in records):
        return {}
    names = {"repeated pairs": "val_loss_repeated", "other tokens": "val_loss_others"}
    lines = [series(label, records, key) for label, key in names.items()]
    return {_COPYING: line_chart(_COPYING, lines, references=[("copies", COPIES)])}


_STYLE = """
.verdict { font-size: 1.35rem; }
section { display: grid; gap: 1rem 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
th, td { padding: .2rem 1.5rem .2rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
"""
