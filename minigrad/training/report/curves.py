"""The lines of metrics.jsonl as the curves of a chart."""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from minigrad.pages.chart import Series, thinned
from minigrad.system.units import format_count
from minigrad.training.folder import metrics

_MOST_LINES = 8  # of a chart: of more numbers, their mean and the extremes are drawn

EVERY_LINE = (
    ("Learning rate", "learning_rate", 1.0),
    ("Norm of the gradient, before clipping", "gradient_norm", 1.0),
    ("Tokens per second", "tokens_per_second", 1.0),
    ("Memory, MB", "memory_bytes", 1e6),
)
"""The charts of values that every line of metrics has: title, key and unit."""


def median_speed(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the median of the tokens per second, in words."""
    speeds = [each["tokens_per_second"] for each in records if each["tokens_per_second"] is not None]
    return format_count(statistics.median(speeds)) if speeds else "unknown"


def even(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Join lines of metrics until each holds the mean loss of as many steps as usual, so that the curve does not jump.

    An evaluation and the end of a run write a line before its time, of few steps. The first step stays by itself: it
    shows where training began. The bits per byte of joined lines are their mean, weighted by the steps.
    """
    counts = [after - before for before, after in itertools.pairwise([0, *(each["step"] for each in records)])]
    usual = statistics.median(counts or [0])
    groups: list[list[int]] = []  # indices of the lines to join
    for index in range(len(records)):
        if len(groups) > 1 and sum(counts[each] for each in groups[-1]) < usual:
            groups[-1].append(index)
        else:
            groups.append([index])
    if len(groups) > 2 and sum(counts[each] for each in groups[-1]) < usual:
        groups[-2:] = [groups[-2] + groups[-1]]
    return [_joined([records[each] for each in group], [counts[each] for each in group]) for group in groups]


def _joined(records: Sequence[Mapping[str, Any]], counts: Sequence[int]) -> dict[str, Any]:
    values = [record["bits_per_byte"] for record in records]
    known = None not in values and sum(counts) > 0
    mean = sum(map(operator.mul, values, counts)) / sum(counts) if known else values[-1]
    return {**records[-1], "bits_per_byte": mean}


def series(label: str, records: Sequence[Mapping[str, Any]], key: str, unit: float = 1.0, over: str = "step") -> Series:
    """Return one value of the records, divided by `unit`, over another, in at most 2,000 points; null becomes a gap."""
    present = thinned([record for record in records if key in record])
    values = [float("nan") if record[key] is None else record[key] / unit for record in present]
    return Series(label, [record[over] for record in present], values)


def extra_curves(records: Sequence[Mapping[str, Any]], elsewhere: Collection[str] = ()) -> dict[str, list[Series]]:
    """Return the curves of the numbers that modules and guests measure, but for names that are drawn `elsewhere`."""
    known = {*metrics.FIELDS, *elsewhere}
    curves = dict[str, list[Series]]()
    for name in dict.fromkeys(name for record in records for name in record if name not in known):
        if rows := [(record["step"], row) for record in records if (row := _numbers(record.get(name, [])))]:
            curves[name] = _lines(name, thinned(rows))
    return curves


def _numbers(measured: Any) -> list[float]:
    """Return one number or several, null as NaN; none of objects."""
    items = measured if isinstance(measured, list) else [measured]
    return [math.nan if each is None else each for each in items if not isinstance(each, dict)]


def _lines(name: str, rows: Sequence[tuple[int, list[float]]]) -> list[Series]:
    steps = [step for step, _ in rows]
    columns = list(zip(*(row for _, row in rows), strict=False))
    if len(columns) == 1:
        return [Series(name, steps, columns[0])]
    if len(columns) <= _MOST_LINES:
        return [Series(str(number), steps, values) for number, values in enumerate(columns, start=1)]
    lines = (("largest", max), ("mean", statistics.fmean), ("smallest", min))
    return [Series(label, steps, [of_row(row) for _, row in rows]) for label, of_row in lines]
