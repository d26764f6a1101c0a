"""Line charts as small SVG pictures, in the colours of the page around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from minigrad.pages.page import escape
from minigrad.pages.svg import line, picture, text

MAX_POINTS = 2000  # more than a picture can show
Point = TypeVar("Point")


def thinned(points: Sequence[Point]) -> Sequence[Point]:
    """Return at most `MAX_POINTS` points at equal distances, the last one among them."""
    step = -(-len(points) // MAX_POINTS) or 1
    return points[(len(points) - 1) % step :: step]


_WIDTH, _HEIGHT = 460, 290  # narrow enough that the labels can be read when a phone shows it 340 pixels wide
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 26, 12, 46  # margins, which hold the labels of the axes
_LEGEND = _WIDTH - 150  # where the legend begins, at the top
_NEAR = 22  # between two lines with a smaller distance there is no room for a label
COLOURS = ("#3b82c4", "#d9822b", "#3a9d6e", "#b85cc0", "#d0524f", "#8a8f2e", "#2aa3b5", "#8c6bd1")
"""The colours of the lines, which differ visibly from each other and from white and black paper."""

_DASHES = ("", "7 3", "2 3", "9 3 2 3")  # of the lines, for readers who cannot tell the colours; then again


@dataclass(frozen=True)
class Series:
    """One line of a chart; a value that is not finite leaves a gap."""

    label: str
    steps: Sequence[float]
    values: Sequence[float]


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    references: Sequence[tuple[str, float]] = (),
    over: str = "step",
    legend: bool = True,
) -> str:
    """Return an SVG chart of values over steps, or `over` something else that is counted.

    The horizontal axis begins at 0, but at the first position if it counts these. A dashed line is drawn at each of
    `references` (label, value). The legend of several lines is left out if the page has one (`key`). The values of a
    single series start at zero: otherwise a change of 1% would fill the height.
    """
    values = [value for each in series for value in each.values if math.isfinite(value)]
    values += [value for _, value in references]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    low = min(low, 0.0) if len(series) == 1 else low
    margin = (0.05 if len(series) > 1 else 0.125) * (high - low) or 0.5 * abs(high) or 0.5
    steps = [step for each in series for step in each.steps] or [0]
    begin = float(min(steps)) if over == "position" else 0.0
    x = _Axis(begin, max(*map(float, steps), begin + 1), _LEFT, _WIDTH - _RIGHT)
    low, high = low - margin if len(series) > 1 or low < 0 else low, high + margin
    has_legend = legend and len(series) > 1
    high = _top(series, [value for _, value in references], x, low, high) if has_legend else high
    y = _Axis(low, high, _HEIGHT - _BOTTOM, _TOP)
    parts = [*_grid(x, y, over)]
    for number, each in enumerate(series):
        parts += _line(each, number, x, y)
    finite = ([value for value in each.values if math.isfinite(value)] for each in series)
    ends = [float(y.place(values[-1])) for values in finite if values]
    falling = sorted(references, key=lambda reference: reference[1], reverse=True)
    levels = [float(y.place(value)) for _, value in falling]
    for number, (label, _) in enumerate(falling):
        parts += _reference(label, levels[number], [*ends, *levels[:number]], levels[number + 1 :])
    for number, each in enumerate(series if has_legend else ()):
        level = _TOP + 12 + 20 * number
        parts.append(f'<path d="M{_LEGEND} {level}h26" {_stroke(number)}/>')
        parts.append(text(escape(each.label), _WIDTH - 118, level, dy=".35em"))
    description = " ".join([f"{title}.", *(_described(each, over) for each in series)])
    return picture(description, _WIDTH, _HEIGHT, parts)


def captioned(title: str, series: Sequence[Series], **options: Any) -> str:
    """Return a line chart below its title, for a page; `options` are those of `line_chart`."""
    return f"<figure><figcaption>{escape(title)}</figcaption>{line_chart(title, series, **options)}</figure>"


def key(labels: Sequence[str]) -> str:
    """Return a list of the lines of charts without a legend: each label with its line."""
    items = (
        f'<li><svg aria-hidden="true" viewBox="0 0 26 10"><path d="M0 5h26" {_stroke(number)}/></svg>'
        f"{escape(label)}</li>"
        for number, label in enumerate(labels)
    )
    return f"<ul class=key>{''.join(items)}</ul>"


def _stroke(number: int) -> str:
    """Return how line number `number` is drawn."""
    dash = _DASHES[number % len(_DASHES)] if number > 1 else ""
    return f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="1.8"' + f' stroke-dasharray="{dash}"' * bool(dash)


def _described(series: Series, over: str) -> str:
    """Return a sentence about a line: where it begins, where it ends, and its lowest value if that is neither."""
    points = [point for point in zip(series.steps, series.values, strict=True) if math.isfinite(point[1])]
    if not points:
        return f"{series.label}: no values."
    (first, begin), (last, end) = points[0], points[-1]
    first_place, last_place = (f"{x:,.6g} {over}" if over.endswith("s") else f"{over} {x:,.6g}" for x in (first, last))
    lowest = min(value for _, value in points)
    dip = f", with {lowest:.4g} as the lowest" if lowest < min(begin, end) else ""
    return f"{series.label}: {begin:.4g} at {first_place}, {end:.4g} at {last_place}{dip}."


class _Axis(NamedTuple):
    """Values from `low` to `high` at places from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def place(self, value: float) -> str:
        share = (value - self.low) / (self.high - self.low)
        return f"{self.start + share * (self.stop - self.start):.1f}"

    def ticks(self, least: float = 0.0) -> list[float]:
        """Return about five round values, `least` or more apart."""
        step = round_step(max((self.high - self.low) / 5, least))
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50 ... (times any power of ten) that is not below `least`.

    >>> [round_step(x) for x in (0.9, 1.1, 30, 0.003)]
    [1.0, 2.0, 50.0, 0.005]
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _grid(x: _Axis, y: _Axis, over: str) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for tick in y.ticks():
        level = y.place(tick)
        parts.append(line(f"M{_LEFT} {level}H{right}", stroke_opacity=".15"))
        label = f"{tick:,.0f}" if abs(tick) >= 1_000 else f"{tick + 0.0:.4g}"  # + 0.0: no "-0"
        parts.append(text(label, _LEFT - 8, level, text_anchor="end", dy=".35em"))
    for tick in x.ticks(least=1):  # steps are whole numbers
        place = x.place(tick)
        parts.append(line(f"M{place} {_TOP}V{bottom}", stroke_opacity=".15"))
        parts.append(text(f"{tick:,.0f}", place, bottom + 18, text_anchor="middle"))
    parts.append(text(escape(over), (_LEFT + right) / 2, _HEIGHT - 6, text_anchor="middle"))
    parts.append(line(f"M{_LEFT} {_TOP}V{bottom}H{right}", fill="none", stroke_opacity=".6"))
    return parts


def _line(series: Series, number: int, x: _Axis, y: _Axis) -> list[str]:
    path, pen = "", "M"
    points = list(zip(series.steps, series.values, strict=True))
    for step, value in points:
        path += f"{pen}{x.place(step)} {y.place(value)}" if math.isfinite(value) else ""
        pen = "L" if math.isfinite(value) else "M"
    parts = [f'<path d="{path}" fill="none" {_stroke(number)}/>'] if path else []
    colour = COLOURS[number % len(COLOURS)]
    if len(points) < 30:
        finite = [(step, value) for step, value in points if math.isfinite(value)]
        parts += [f'<circle cx="{x.place(s)}" cy="{y.place(v)}" r="2.5" fill="{colour}"/>' for s, v in finite]
    return parts


def _reference(label: str, level: float, right: Sequence[float], below: Sequence[float]) -> list[str]:
    """Return a dashed line at height `level`, and its label.

    The label is above the line at its right end, but at its left end if something of `right` is near: below the line
    if no line of `below` is near, else above it.
    """
    words, dashes = escape(label), line(f"M{_LEFT} {level:.1f}H{_WIDTH - _RIGHT}", stroke_dasharray="5 4")
    if all(abs(level - other) > _NEAR for other in right):
        return [dashes, text(words, _WIDTH - _RIGHT - 4, f"{level - 6:.1f}", text_anchor="end")]
    is_free = all(abs(level - other) > _NEAR for other in below)
    return [dashes, text(words, _LEFT + 8, f"{level + (16 if is_free else -6):.1f}")]


def _top(series: Sequence[Series], references: Sequence[float], x: _Axis, low: float, high: float) -> float:
    """Return the value at the top of a chart: `high`, or more if something would run through the legend."""
    height = _HEIGHT - _TOP - _BOTTOM
    legend = (20 * len(series) + 6) / height  # as a share
    near = [(value, legend + 18 / height) for value in references]  # whose label is above the line
    for each in series:
        before = sum(float(x.place(step)) < _LEGEND for step in each.steps)
        after = each.values[max(0, before - 1) :]  # the last point before the legend has a line that leads there
        near += [(value, legend) for value in after if math.isfinite(value)]
    return max([high, *((value - share * low) / (1 - share) for value, share in near)])
