"""Charts: every finite value is in the picture, and a larger value is drawn higher."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.pages.chart import COLOURS, Series, captioned, key, line_chart, round_step

VALUES = st.floats(-1e12, 1e12, allow_nan=False) | st.sampled_from([math.nan, math.inf])


def points(svg: str) -> list[tuple[float, float]]:
    """Return the corners of the first line that is drawn in a colour."""
    path = re.search(r'<path d="([^"]+)" fill="none" stroke="#', svg)
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path[1])] if path else []


def labelled(svg: str) -> list[tuple[float, float, float]]:
    """Return the height of each reference, and the place of its label."""
    found = re.findall(r'<path d="M66 ([\d.]+)H434" [^>]*dasharray="5 4"/><text x="([\d.]+)" y="([\d.]+)"', svg)
    return [(float(level), float(x), float(y)) for level, x, y in found]


@given(st.lists(VALUES, min_size=1, max_size=50))
def test_every_finite_value_has_a_place_inside_the_picture(values):
    svg = line_chart("loss", [Series("loss", range(1, len(values) + 1), values)])
    drawn, finite = points(svg), [value for value in values if math.isfinite(value)]
    assert len(drawn) == len(finite)
    assert all(0 <= x <= 460 and 0 <= y <= 290 for x, y in drawn)
    for (_, higher), (_, lower), a, b in zip(drawn, drawn[1:], finite, finite[1:], strict=False):
        if abs(a - b) > 1e-2 * max(map(abs, finite)):
            assert (higher < lower) == (a > b)  # in SVG, up is smaller


def test_a_value_that_is_not_finite_leaves_a_gap():
    svg = line_chart("loss", [Series("loss", [1, 2, 3, 4, 5], [1.0, 2.0, math.nan, 3.0, 4.0])])
    path = re.search(r'<path d="([^"]+)" fill="none" stroke="#', svg)
    assert path is not None
    assert re.sub(r"[\d. -]", "", path[1]) == "MLML"


def test_one_series_starts_at_zero_and_two_do_not():
    one, other = Series("a", [1, 2], [100.0, 101.0]), Series("b", [1, 2], [100.5, 100.2])
    labels_of_y = re.compile(r'text-anchor="end" [^>]*>([^<]*)<')
    assert "0" in labels_of_y.findall(line_chart("x", [one]))
    assert "0" not in labels_of_y.findall(line_chart("x", [one, other]))


@pytest.mark.parametrize(
    ("first", "second", "references"),
    [
        ([4.7, 4.5, 4.4, 4.3], [2.0, 1.5, 1.3, 1.2], []),
        ([1.0, 9.0, 1.0], [2.0, 1.0, 1.0], []),  # a line that leads into the legend from the left
        ([5.0, 1.0, 1.0, 1.0, 1.0, 1.0], [4.0, 2.0, 1.0, 1.0, 1.0, 1.0], [("limit", 5.0)]),
        ([2.0, 1.0], [1.5, 1.4], [("xz 1.79", 1.79), ("6-gram of bytes 2.25", 2.25)]),
    ],
)
def test_neither_a_line_nor_its_label_runs_through_the_legend(first, second, references):
    both = [Series(name, range(len(values)), values) for name, values in (("a", first), ("b", second))]
    svg = line_chart("x", both, references=references)
    legend = max(float(y) for y in re.findall(r'<path d="M310 ([\d.]+)h26"', svg))
    assert all(y > legend + 5 for x, y in points(svg) if x >= 310)
    drawn = labelled(svg)
    assert len(drawn) == len(references)
    assert all(min(level, baseline - 12) > legend + 5 for level, _, baseline in drawn)


def test_a_line_that_falls_away_from_the_legend_needs_no_room_for_it():
    falling = [Series(name, range(9), [5.0, 2, 1, 1, 1, 1, 1, 1, 1]) for name in "ab"]
    assert min(y for _, y in points(line_chart("x", falling))) < 30  # the first value is at the top


@pytest.mark.parametrize(
    ("most", "labels"),
    [
        (10_500.0, ["0", "5,000", "10,000"]),
        (0.006, ["0", "0.002", "0.004", "0.006"]),
        (7e-5, ["0", "2e-05", "4e-05", "6e-05"]),
    ],
)
def test_labels_are_short_round_numbers(most, labels):
    assert (
        re.findall(r'text-anchor="end" [^>]*>([^<]*)<', line_chart("x", [Series("a", [1, 2], [0.0, most])])) == labels
    )


def test_few_steps_are_labelled_with_whole_numbers():
    svg = line_chart("x", [Series("a", [1, 2], [100.0, 101.0])])
    assert re.findall(r'text-anchor="middle">([^<]*)<', svg) == ["0", "1", "2", "step"]


def test_labels_are_text_and_the_references_are_named():
    references = [("x & z", 1.5), ("n-gram", 1.8)]
    svg = line_chart("a < b", [Series("<b>", [1], [1.0]), Series("c", [1], [2.0])], references=references)
    assert "a &lt; b" in svg
    assert "&lt;b&gt;" in svg
    assert "x &amp; z" in svg
    assert "n-gram" in svg
    line_chart("x", [Series("runs/b\udce9", [1], [1.0])], references=[("b\udce9", 1.5)]).encode()  # not a valid name
    assert svg.count("stroke-dasharray") == 2
    assert "<figcaption>a &lt; b</figcaption>" in captioned("a < b", [])


def test_the_label_of_a_reference_is_where_the_curve_is_not():
    """A falling curve leaves room above a line at its right end, unless it ends there; then below it, at the left."""
    curve = Series("loss", [1, 2, 3], [4.0, 2.0, 1.0])
    far = line_chart("x", [curve], references=[("far", 2.0)])
    near = line_chart("x", [curve], references=[("near", 1.05)])
    (level, right, above), (other, left, below) = labelled(far) + labelled(near)
    assert right > 400
    assert above < level
    assert left < 100
    assert below > other


@pytest.mark.parametrize("end", [1.0, 1.5, 1.95, 3.0])
@pytest.mark.parametrize("values", [(1.79, 1.9), (1.9, 1.79), (1.85, 1.85), (1.7, 2.0)])
def test_the_labels_of_two_near_references_are_apart(end, values):
    curves = [Series("a", [1, 2], [6.0, 2.0]), Series("b", [1, 2], [4.5, end])]
    svg = line_chart("x", curves, references=[(f"reference {value}", value) for value in values])
    (level, x, baseline), (other, other_x, other_baseline) = labelled(svg)
    assert x != other_x or abs(baseline - other_baseline) > 14
    for line, y in ((level, other_baseline), (other, baseline)):
        assert not y - 11 < line < y + 3  # through the text


@pytest.mark.parametrize("values", [[], [math.nan], [0.0], [5.0, 5.0], [-3.0, -3.0]])
def test_a_chart_of_nothing_or_of_one_value_is_drawn(values):
    assert line_chart("x", [Series("x", range(len(values)), values)]).startswith("<svg")


@given(st.floats(1e-12, 1e12))
def test_steps_between_ticks_are_round_and_not_too_large(least):
    step = round_step(least)
    assert least * (1 - 1e-6) <= step <= 2.6 * least
    assert f"{step:.0e}"[0] in "125"


def test_a_constant_is_no_line_at_the_upper_edge():
    svg = line_chart("memory", [Series("memory", [1, 2], [480.0, 480.0])])
    top, bottom = 12, 290 - 46
    assert all(y - top > 0.1 * (bottom - top) for _, y in points(svg))


def test_a_chart_says_where_its_lines_begin_and_end():
    lines = [
        Series("a", [1, 2_000, 3_000], [9.0, 1.25, 2.0]),
        Series("<b>", [5, 6], [math.nan, 1.0]),
        Series("c", [], []),
    ]
    label = re.search(r'aria-label="([^"]+)"', line_chart("loss", lines))
    assert label is not None
    assert label[1] == (
        "loss. a: 9 at step 1, 2 at step 3,000, with 1.25 as the lowest. "
        "&lt;b&gt;: 1 at step 6, 1 at step 6. c: no values."
    )
    assert "9 at 1 minutes" in line_chart("loss", lines, over="minutes")


def test_many_lines_are_told_apart_by_colours_and_dashes_also_in_a_key_beside_the_charts():
    labels = [f"run {number}" for number in range(len(COLOURS))]
    chart = line_chart("loss", [Series(label, [1, 2], [1.0, 2.0]) for label in labels], legend=False)
    strokes = re.findall(r'fill="none" (stroke="#[^/]*)/>', chart)
    assert len(set(strokes)) == len(labels)
    assert "run 0</text>" not in chart
    assert re.findall(r'd="M0 5h26" ([^/]*)/>', key(labels)) == strokes
    assert [f"{label}</li>" in key(labels) for label in labels] == [True] * len(labels)
