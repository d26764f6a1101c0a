"""The measurements of a run, one JSON object per line of metrics.jsonl.

Each line is written at once: another program can follow the run, and a kill loses one line at most.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minigrad.errors import InputError, RunError
from minigrad.system.files import reason, write_text
from minigrad.typing import PathLike

TIMING_FIELDS = ("seconds", "tokens_per_second", "memory_bytes")
"""The keys that differ between two equal runs; compare metrics without them."""


@dataclass(frozen=True)
class Measurement:
    """The measurements of a run after a step.

    `tokens` and `seconds` count from the start of the run; `loss` is in nats per token, the mean since the last line.
    The `val_` values are None unless the held-out text was evaluated. `of_family` holds the measurements of one
    family, such as Wiola's merge ratio of each layer.
    """

    step: int
    tokens: int
    loss: float
    bits_per_byte: float
    learning_rate: float
    gradient_norm: float
    seconds: float
    tokens_per_second: float
    memory_bytes: int
    val_loss: float | None = None
    val_bits_per_byte: float | None = None
    of_family: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def as_record(self) -> dict[str, Any]:
        """Return the measurement as in metrics.jsonl: without the values that are None."""
        record: dict[str, Any] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value is not None and each.name != "of_family":
                record[each.name] = int(value) if each.type == "int" else float(value)
        return record | {name: [float(value) for value in values] for name, values in self.of_family.items()}


class Metrics:
    """Writes metrics.jsonl in a run folder."""

    def __init__(self, run: PathLike, resume_step: int | None = None) -> None:
        """Start an empty file for a new run, or cut that of a resumed run back to the step of its checkpoint.

        The lines after `resume_step` are removed, because those steps are taken again. Raises RunError if the file
        cannot be written.
        """
        self.path = Path(run) / "metrics.jsonl"
        kept = [] if resume_step is None else [line for line in read(run) if line["step"] <= resume_step]
        write_text(self.path, "".join(map(_as_line, kept)))

    def append(self, measurement: Measurement) -> None:
        """Append one line; raises RunError if it cannot be written."""
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(_as_line(measurement.as_record()))
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {reason(error)}") from error


def _as_line(record: Mapping[str, Any]) -> str:
    # JSON has no NaN and no infinity: a value that is not finite becomes null.
    finite = {
        key: value if value is None or isinstance(value, list) or math.isfinite(value) else None
        for key, value in record.items()
    }
    return json.dumps(finite, allow_nan=False) + "\n"


def read(run: PathLike) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl in the run folder `run`, oldest first; none if there is no such file.

    A last line without its line break was cut by a kill and is dropped; any other damage raises InputError.
    """
    path = Path(run) / "metrics.jsonl"
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from error
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number}, is not JSON: {error}") from error
        if not isinstance(record, dict) or not isinstance(record.get("step"), int):
            raise InputError(f"{path}, line {number}, is not a line of metrics: it has no step")
        records.append(record)
    return records
