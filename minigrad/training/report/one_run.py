"""The report of a run: one HTML page that holds text and pictures and opens offline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from minigrad.evaluate.rivals import ORDER
from minigrad.pages.chart import captioned
from minigrad.pages.page import escape, page
from minigrad.system.files import write_text
from minigrad.system.terminal import fold_blank_lines
from minigrad.system.units import format_bytes, format_count, format_seconds
from minigrad.training.folder import metrics
from minigrad.training.folder.checkpoint import Sample
from minigrad.training.folder.record import REPORT, Record
from minigrad.training.report.curves import EVERY_LINE, even, extra_curves, median_speed, series
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
    "one, which may be easier or harder than the whole: a bend at the end need not come from the model."
)


def write_report(
    run: PathLike,
    *,
    record: Record,
    samples: Sequence[Sample],
    seconds: float,
    memory: int,
    sections: Sequence[tuple[str, Collection[str]]] = (),
) -> Path:
    """Write report.html into the run folder `run` from its record and its metrics.jsonl, and return its path.

    `seconds` are those of the whole run, `memory` is its peak in bytes, 0 where it is unknown; `sections` of HTML, each
    with the names of the measurements that it draws, go below the charts. Raises RunError if the file cannot be
    written.
    """
    records, result, title = metrics.read(run), record.result, f"{record.family} {record.size}"
    verdict = compare_with_xz(result)
    trained = f"{format_count(record.parameters)} parameters, trained on {record.data}"
    rivals = {"xz": result["xz_bits_per_byte"], f"{ORDER}-gram of bytes": result["ngram_bits_per_byte"]}
    known = [(f"{name} {value:.2f}", value) for name, value in rivals.items() if value is not None]
    written = ((f"step {each.step:,}", escape(fold_blank_lines(each.text))) for each in samples)
    body = [
        f"<h1>{escape(title)}</h1><p>{escape(trained)}</p>",
        f"<p class=verdict>{escape(verdict)}</p>",
        _facts(records, seconds, memory) if records else "<p>No step was logged.</p>",
        _charts(records, known, {name for _, drawn in sections for name in drawn}) if records else "",
        *(section for section, _ in sections),
        "<h2>What it wrote</h2>" if samples else "",
        *(f"<figure><figcaption>{step}</figcaption><pre>{text}</pre></figure>" for step, text in written),
        f"<h2>Repeat this run</h2><pre>{escape(result['command'])}</pre>",
        "<h2>Settings</h2><table>",
        *(f"<tr><th>{escape(name)}<td>{escape(value)}" for name, value in record.used.items() if value is not None),
        "</table>",
    ]
    path = Path(run) / REPORT
    write_text(path, page(title, "\n".join(body), _STYLE))
    return path


def compare_with_xz(result: Mapping[str, Any]) -> str:
    """Return a sentence that compares the model with the compressor xz, or says why xz did not run.

    If the model may have been trained on the validation text, a warning follows.

    >>> compare_with_xz({"bits_per_byte": 1.71, "xz_bits_per_byte": 1.8, "test_bits_per_byte": 1.74})
    'Validation: 1.71 bits per byte (lower is better; xz -9e: 1.80). Test: 1.74.'
    """
    xz, test = result["xz_bits_per_byte"], result.get("test_bits_per_byte")
    beside = f"no figure of xz: {result['no_xz']}" if xz is None else f"xz -9e: {xz:.2f}"
    tested = "" if test is None else f" Test: {test:.2f}."
    caution = f" Caution: {result['caution']}." if result.get("caution") else ""
    return f"Validation: {result['bits_per_byte']:.2f} bits per byte (lower is better; {beside}).{tested}{caution}"


def _facts(records: Sequence[Mapping[str, Any]], seconds: float, memory: int) -> str:
    last = records[-1]
    facts = {
        "steps": format_count(last["step"]),
        "tokens": format_count(last["tokens"]),
        "time": format_seconds(seconds),
        "tokens/s (median)": median_speed(records),
        "memory (peak)": format_bytes(memory) if memory else "unknown",
    }
    return f"<dl>{''.join(f'<div><dt>{name}<dd>{value}</div>' for name, value in facts.items())}</dl>"


def _charts(
    records: Sequence[Mapping[str, Any]], baselines: Sequence[tuple[str, float]], elsewhere: Collection[str]
) -> str:
    losses = [series("training", even(records), "bits_per_byte"), series("validation", records, "val_bits_per_byte")]
    figures = [captioned("Loss, bits per byte", losses, references=baselines)]
    explained = [_VALIDATION_EXPLAINED]
    if any("val_loss_repeated" in record for record in records):
        names = {"repeated pairs": "val_loss_repeated", "other tokens": "val_loss_others"}
        lines = [series(label, records, key) for label, key in names.items()]
        figures.append(captioned(_COPYING, lines, references=[("copies", COPIES)]))
        explained.append(_COPYING_EXPLAINED)
    figures += [captioned(title, [series(title, records, key, unit)]) for title, key, unit in EVERY_LINE]
    own = extra_curves(records, elsewhere)
    figures += [captioned((name[:1].upper() + name[1:]).replace("_", " "), lines) for name, lines in own.items()]
    return f"<section>{''.join(figures)}</section>{''.join(f'<p>{words}</p>' for words in explained)}"


_STYLE = """
.verdict { font-size: 1.35rem; }
section { display: grid; gap: 1rem 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
th, td { padding: .2rem 1.5rem .2rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
"""
