"""The measurements that README.md and the guides print: the records of the TOML files beside this one.

[training-step-zen5]                  the name, by which a page or a claim draws from it
script = "benchmarks/train_step.py"
command = "python benchmarks/train_step.py nano"
machine = "AMD EPYC (Zen 5), 2 cores"
openblas = "SkylakeX"                 the core that OpenBLAS reports; "not used", "not recorded"
variables = "none"                    environment variables that change them, or "not recorded"
commit = "a93a413"                    the one that was measured; "before X" if only the one that wrote it down is known
date = 2026-11-23
runs = "one run, median of 7 steps"   how often, and what a figure is of those
columns = ["tokens/s", "peak MB"]     what the values of a list are
note = "..."                          if there is more to say

[training-step-zen5.figures]          as they are printed, with units where the name or the column has none
"nano, 8 x 256" = ["28,534", "376"]
"law of the scaling, root mean square error" = "0.034 bits per byte"
"""

from __future__ import annotations

import datetime
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from docs.measurements.printed import numbers

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


@dataclass(frozen=True)
class Record:
    """One measurement; the fields are explained at the top of this file."""

    name: str
    script: str
    command: str
    machine: str
    openblas: str
    variables: str
    commit: str
    date: datetime.date
    runs: str
    figures: dict[str, str | list[str]]
    columns: tuple[str, ...] = ()
    note: str = ""

    def values(self, name: str) -> list[str]:
        """Return the values of a figure, as they are printed."""
        found = self.figures[name]
        return found if isinstance(found, list) else [found]

    def value(self, name: str, column: str | int = 0, number: int = 0) -> float:
        """Return a number of a value: of the column with this name or place the first, unless another is asked for.

        >>> Record(*[""] * 9, {"nano": ["28,534", "1.2 to 1.3 s"]}, ("tokens/s", "first")).value("nano", "tokens/s")
        28534.0
        """
        place = self.columns.index(column) if isinstance(column, str) else column
        found = numbers(self.values(name)[place])[number]
        return -float(found.value) if found.sign == "-" else float(found.value)

    def entries(self) -> list[str]:
        """Return a line for each figure: its name, then its values."""
        return [" | ".join([name, *self.values(name)]) for name in self.figures]


def read(folder: Path = FOLDER) -> dict[str, Record]:
    """Return the records of a folder by name; raises ValueError, naming the record, for one that is not complete."""
    records: dict[str, Record] = {}
    for file in sorted(folder.glob("*.toml")):
        for name, row in tomllib.loads(file.read_text(encoding="utf-8")).items():
            if name in records:
                raise ValueError(f"{file.name}: there are two measurements {name!r}")
            records[name] = _checked(f"{file.name}: the measurement {name!r}", name, row)
    return records


def _checked(where: str, name: str, row: dict) -> Record:
    known = {field.name for field in fields(Record)}
    if unknown := row.keys() - known:
        raise ValueError(f"{where} has unknown fields: {', '.join(sorted(unknown))}")
    if missing := known - row.keys() - {"name", "columns", "note"}:
        raise ValueError(f"{where} lacks {', '.join(sorted(missing))}")
    if empty := [field for field, value in row.items() if not value]:
        raise ValueError(f"{where} leaves {', '.join(empty)} empty; write 'not recorded' if nobody knows it")
    if not isinstance(row["date"], datetime.date):
        raise ValueError(f"{where} has the date {row['date']!r}; write it as in 2026-11-23")
    record = Record(name, **{**row, "columns": tuple(row.get("columns", ()))})
    for figure in record.figures:
        values = record.values(figure)
        if not any(numbers(value) for value in values):
            raise ValueError(f"{where}: {figure!r} has no number: {values}")
        if isinstance(record.figures[figure], list) and len(values) != len(record.columns):
            raise ValueError(f"{where}: {figure!r} has {len(values)} values for {len(record.columns)} columns")
    return record
