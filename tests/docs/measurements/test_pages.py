"""What README.md and the guides print as measured is in the record of a measurement, which is named in its section."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from docs.claims.table import read as read_claims
from docs.measurements.pages import Section, is_recorded, not_recorded, pages, printed, sections
from docs.measurements.printed import Number
from docs.measurements.records import read

RECORDS = read()
SECTIONS = [each for page in pages() for each in sections(page.read_text(encoding="utf-8"), page.name)]
MEASURED = [each for each in SECTIONS if each.measured]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: f"{section.page}: {section.heading}")
def test_every_figure_is_in_a_record(section: Section) -> None:
    assert not set(section.measured) - RECORDS.keys(), "these records are not in docs/measurements"
    assert not not_recorded(section, RECORDS), (
        "docs/measurements/pages.py says what counts as a figure and where it must stand"
    )


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_mark_stands_alone(page: Path) -> None:
    """Markdown takes what follows a comment, up to the next blank line, as it stands."""
    lines = page.read_text(encoding="utf-8").splitlines()
    marks = ("<!-- measured:", "<!-- given:")
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        if line.startswith(marks):
            assert not after or after.startswith(marks), after
            assert not before or before.startswith(marks), before


def test_every_record_is_drawn_from() -> None:
    drawn = {name for section in SECTIONS for name in section.measured}
    drawn |= {name for claim in read_claims() for name in claim.measured}
    assert RECORDS.keys() == drawn


def test_a_changed_digit_is_noticed() -> None:
    """Of all figures, one digit more or less in the last place; few of the wrong ones are right elsewhere."""
    noticed = [not is_recorded(row, section, RECORDS) for section in MEASURED for row in with_a_wrong_digit(section)]
    assert len(noticed) > 1500
    assert sum(noticed) / len(noticed) > 0.9


def with_a_wrong_digit(section: Section) -> list[list[Number]]:
    """Return the rows of figures of a section, each with its last number a step too large or too small."""
    rows = [row for row in printed(section) if not is_recorded(row, replace(section, measured=()), RECORDS)]
    steps = [(row, row[-1].step * sign) for row in rows for sign in (1, -1)]
    return [[*row[:-1], replace(row[-1], value=row[-1].value + step)] for row, step in steps]


PAGE = """# Speed

<!-- measured: training-step-amx -->
<!-- given: dropout 0.1 -->

With NumPy 2.4 and dropout 0.1 nano reaches 19,909 tokens/s; `--size 7.5` is code, $1.5$ a formula.

| size | tokens/s |
| --- | --: |
| nano | 19,909 |
| micro | 5,855 |

# Settings

A text of 64 tokens, eight times.
"""


def found(page: str) -> list[list[str]]:
    return [not_recorded(section, RECORDS) for section in sections(page)]


def test_a_page_with_recorded_figures_passes() -> None:
    assert found(PAGE) == [[], [], []]


@pytest.mark.parametrize(
    ("right", "wrong", "missing"),
    [
        ("19,909 tokens/s;", "19,910 tokens/s;", "19,910 tokens/s"),
        ("| nano | 19,909 |", "| nano | 19,906 |", "19,906"),
        ("<!-- given: dropout 0.1 -->", "", "0.1"),
        ("<!-- measured: training-step-amx -->", "", "19,909 tokens/s"),
        ("eight times", "8 times", "8 times"),
    ],
)
def test_a_figure_without_a_record_is_found(right: str, wrong: str, missing: str) -> None:
    assert [missing] in found(PAGE.replace(right, wrong))


def test_the_figures_of_a_row_are_of_one_measurement() -> None:
    page = "# A\n<!-- measured: training-step-amx -->\n| size | a | b |\n| - | - | - |\n| nano | 19,909 | 350 MB |\n"
    assert found(page) == [[], []]
    assert found(page.replace("350", "567")) == [[], ["19,909, 567 MB"]]
