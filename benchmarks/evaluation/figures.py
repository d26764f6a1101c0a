"""Pictures of a study: every arm's difference with its interval, and the curves of its training."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

from minigrad.pages.chart import round_step
from minigrad.pages.svg import box, line, picture, text

_WIDTH, _ROW, _TOP, _LEFT, _RIGHT = 760, 26, 34, 300, 24


class Bar(NamedTuple):
    """An arm in the picture: its difference, and the ends of its interval."""

    label: str
    mean: float
    low: float
    high: float


def forest(title: str, bars: Sequence[Bar], margin: float) -> str:
    """Return a picture with a row for each arm: a dot at its difference on a line from end to end of its interval.

    The band around zero is the margin; an interval that ends outside the picture has an open end.
    """
    ends = [abs(value) for bar in bars for value in (bar.mean, bar.low, bar.high) if math.isfinite(value)]
    middle = sorted(ends)[len(ends) // 2] if ends else margin
    most = 1.1 * max([margin, *(abs(bar.mean) for bar in bars), *(end for end in ends if end <= 6 * middle)])
    height = _TOP + _ROW * len(bars) + 40

    def x(value: float) -> float:
        inside = min(max(value, -most), most)
        return round(_LEFT + (inside / most + 1) / 2 * (_WIDTH - _LEFT - _RIGHT), 1)

    bottom = height - 36
    parts = [box(x(-margin), _TOP, x(margin) - x(-margin), bottom - _TOP, fill_opacity=".12")]
    parts.append(line(f"M{x(0)} {_TOP}V{bottom}", stroke_opacity=".6"))
    parts.append(text(f"the band: a margin of {margin:g}", x(0), _TOP - 10, text_anchor="middle", opacity=".8"))
    step = round_step(most / 3)
    for number in range(-int(most / step), int(most / step) + 1):
        label = f"{number * step:+.3g}" if number else "0"
        parts.append(text(label, x(number * step), bottom + 16, text_anchor="middle"))
        parts.append(line(f"M{x(number * step)} {bottom}v4"))
    parts.append(text("bits per byte, lower is better", x(0), height - 4, text_anchor="middle"))
    for row, bar in enumerate(bars):
        level = _TOP + _ROW * row + _ROW // 2
        parts.append(text(html.escape(bar.label), _LEFT - 14, level, text_anchor="end", dy=".35em"))
        parts.append(line(f"M{x(bar.low)} {level}H{x(bar.high)}", stroke_width="2", stroke_opacity=".8"))
        shown = [end for end in (bar.low, bar.high) if abs(end) <= most]
        parts += [line(f"M{x(end)} {level - 4}v8", stroke_width="2", stroke_opacity=".8") for end in shown]
        parts.append(f'<circle cx="{x(bar.mean)}" cy="{level}" r="4"/>')
    said = "; ".join(f"{bar.label}: {bar.mean:+.4f}, {bar.low:+.4f} to {bar.high:+.4f}" for bar in bars)
    return picture(f"{title}. {said}.", _WIDTH, height, parts)
