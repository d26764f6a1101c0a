"""The figures that a page prints, and the measurements that it draws them from.

A section is what stands below a heading, up to the next one. It names the records that its figures are from, and the
numbers that are none (settings, counts, figures of others), in comments that a reader does not see:

    <!-- measured: ten-minutes, an-hour -->
    <!-- given: dropout 0.1, 2.0, 64 MB -->

What is read: the text, the tables, and the words in place of a picture. Not read are code, formulas, what programs
print, versions ("NumPy 2.4"), years, and the heads of tables.

What counts as a figure: in the text a number with a fraction, an exponent, a unit (printed.UNITS) or "million"; where a
section names a record, also every number of three digits and more, and in a table every number of a cell that begins
with one.

Where a figure must stand: in the name or the value of a figure of one of the records, where it may have more digits
than the page prints. What the short cells of a row print must all be found in one figure, so that no row is made of
several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from docs.measurements.printed import Number, numbers
from docs.measurements.records import ROOT, Record

COMMENT = re.compile(r"<!--(.*?)-->", flags=re.DOTALL)
PROGRAMS = (
    "Python",
    "NumPy",
    "Numba",
    "PyTorch",
    "OpenBLAS",
    "transformers",
    "tokenizers",
    "tiktoken",
    "llama-cpp-python",
)
NOT_READ = re.compile(
    rf"""^(?P<fence>```|~~~).*?^(?P=fence)\s*?$      # code
    |^\ {{4}}.*?$                                    # code, indented
    |``.*?`` | `[^`]*` | \$\$.*?\$\$ | \$[^$\n]+\$   # code in a line, formulas
    |(?<=\])\([^)]*\)                                # where a link leads
    |\b(?:{"|".join(PROGRAMS)})(?:,?\s(?:or\s)?\d+(?:\.\d+)+)+ | arXiv[\s:]\d+\.\d+
    |(?<![,.])\b(?:19|20)\d\d\b(?!,\d)                           # a year""",
    flags=re.VERBOSE | re.DOTALL | re.MULTILINE,
)
WORDS_OF_A_SHORT_CELL = 12


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, without code, formulas and comments."""

    page: str
    heading: str
    measured: tuple[str, ...]
    given: str
    text: str


def pages() -> list[Path]:
    """Return README.md and the guides; the chapters of the course print what they compute."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def sections(text: str, page: str = "") -> list[Section]:
    """Return the sections of a page."""
    found, heading, lines, fenced = [], "", list[str](), False
    for line in [*text.splitlines(), "# "]:
        fenced ^= line.startswith(("```", "~~~"))
        if fenced or not line.startswith("#"):
            lines.append(line)
        else:
            found.append(_section(page, heading, "\n".join(lines)))
            heading, lines = line.lstrip("# "), []
    return found


def _section(page: str, heading: str, text: str) -> Section:
    marks: dict[str, list[str]] = {"measured": [], "given": []}
    for comment in COMMENT.findall(text):
        kind, colon, rest = comment.strip().partition(":")
        if colon and kind in marks:
            marks[kind] += [each.strip() for each in re.split(r",\s", rest)]
    alternatives = " ".join(re.findall(r'\balt="([^"]*)"', text))
    plain = re.sub(r"<[^>]*>", " ", NOT_READ.sub(" ", COMMENT.sub("", text))) + "\n\n" + alternatives
    return Section(page, heading, tuple(marks["measured"]), " ; ".join(marks["given"]), plain.replace("*", ""))


def not_recorded(section: Section, records: Mapping[str, Record]) -> list[str]:
    """Return the figures of a section that none of its records has, as they are printed; those of a row together."""
    return [", ".join(each.text for each in row) for row in printed(section) if not is_recorded(row, section, records)]


def is_recorded(row: list[Number], section: Section, records: Mapping[str, Record]) -> bool:
    """Return whether the figures of a row, or one of the text, are given or stand in a record of the section."""
    given = numbers(section.given)
    sought = [each for each in row if not any(each.prints(other) for other in given)]
    figures = [numbers(entry) for name in section.measured for entry in records[name].entries()]
    places = figures if len(row) > 1 else [tuple(number for figure in figures for number in figure)]
    return not sought or any(all(any(each.prints(other) for other in place) for each in sought) for place in places)


def printed(section: Section) -> Iterator[list[Number]]:
    """Yield the figures of a section: those of the text one by one, those of the short cells of a row together."""
    lines = section.text.splitlines()
    text = [line for line in lines if not line.startswith("|")]
    for line, after in pairwise([*lines, ""]):
        if line.startswith("|") and not after.startswith("| -"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            short = [cell for cell in cells if section.measured and len(cell.split()) <= WORDS_OF_A_SHORT_CELL]
            text += ["", *(cell for cell in cells if cell not in short)]
            if together := [number for cell in short for number in _of_a_short_cell(cell)]:
                yield together
    for number in numbers("\n".join(text)):
        if _is_figure(number, of_a_measurement=bool(section.measured)):
            yield [number]


def _of_a_short_cell(cell: str) -> list[Number]:
    begins_with_a_number = bool(re.match(r"[+-]?\d", cell))
    return [each for each in numbers(cell) if begins_with_a_number or _is_figure(each, of_a_measurement=True)]


def _is_figure(number: Number, of_a_measurement: bool) -> bool:
    if number.unit or number.step != 1:
        return True
    return of_a_measurement and number.value >= 100
