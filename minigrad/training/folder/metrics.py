"""The measurements of a run, one JSON object per line of metrics.jsonl.

Each line is written at once: another program can follow the run, and a kill loses one line at most.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minigrad.errors import InputError, RunError
from minigrad.formats.json_files import parse_object, with_null
from minigrad.formats.typed import read_dataclass
from minigrad.options import REQUIRED, option, shown
from minigrad.system.files import read_bytes, reason, write_text
from minigrad.typing import PathLike

FILE = "metrics.jsonl"

TIMING_FIELDS = ("seconds", "tokens_per_second", "memory_bytes")
"""The keys that differ between two equal runs; compare metrics without them."""


VALIDATION = ("loss", "bits_per_byte", "loss_repeated", "loss_others")
"""The fields of a `Score` that a line holds after an evaluation, as in "val_loss"."""

_MAY_BE_NULL = {"loss", "bits_per_byte", "learning_rate", "gradient_norm", "tokens_per_second"}
_MAY_BE_NULL |= {f"val_{name}" for name in VALIDATION}

_LARGEST = sys.float_info.max
_MOST = 10**18  # the largest whole number: a damaged file may hold one that is too large for a float


@dataclass(frozen=True)
class Measurement:
    """The measurements of a run after a step; `val_` values are None unless the validation text was evaluated."""

    step: int = option(REQUIRED, "steps taken since the start of the run", at_least=0, at_most=_MOST)
    tokens: int = option(REQUIRED, "tokens trained on since the start of the run", at_least=0, at_most=_MOST)
    loss: float = option(REQUIRED, "nats per token, the mean since the last line")
    bits_per_byte: float = option(REQUIRED, "the loss since the last line in bits per byte of the text")
    learning_rate: float = option(REQUIRED, "of the last step")
    gradient_norm: float = option(REQUIRED, "of the last step, before clipping")
    seconds: float = option(REQUIRED, "since the start of the run", at_least=0)
    tokens_per_second: float = option(REQUIRED, "of the steps since the last line")
    memory_bytes: int = option(REQUIRED, "resident memory of the process and its copies", at_least=0, at_most=_MOST)
    val_loss: float | None = None
    val_bits_per_byte: float | None = None
    val_loss_repeated: float | None = None  # per token that completes a pair seen before in its sequence
    val_loss_others: float | None = None  # per any other token
    extra: dict[str, Any] = field(default_factory=dict)  # by modules and guests: a number, several, or objects

    def as_record(self) -> dict[str, Any]:
        """Return the measurement as in metrics.jsonl: without the values that are None."""
        record: dict[str, Any] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value is not None and each.name != "extra":
                record[each.name] = int(value) if each.type.startswith("int") else float(value)
        return record | {name: _plain(each) for name, each in self.extra.items()}


def _plain(value: Any) -> Any:
    """Return what a module or a guest measured as JSON has it: a number, a list of numbers, or one of objects."""
    try:
        items = list(value)
    except TypeError:
        return value if isinstance(value, int) else float(value)
    return [each if isinstance(each, dict) else float(each) for each in items]


FIELDS = {each.name for each in dataclasses.fields(Measurement)}


class Metrics:
    """Writes metrics.jsonl in a run folder."""

    def __init__(self, run: PathLike, step: int = 0) -> None:
        """Keep the lines up to `step`; the steps after it are taken again."""
        self.path = Path(run) / FILE
        kept = [line for line in read(run) if line["step"] <= step]
        write_text(self.path, "".join(map(_as_line, kept)))

    def append(self, measurement: Measurement) -> None:
        """Append one line; raises RunError if it cannot be written."""
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(_as_line(measurement.as_record()))
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {reason(error)}") from error


def _as_line(record: Mapping[str, Any]) -> str:
    return json.dumps(with_null(record), allow_nan=False) + "\n"


def read(run: PathLike) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl in the run folder `run`, oldest first; none if there is no such file.

    A last line without its line break was cut by a kill and is dropped; any other damage raises InputError.
    """
    path = Path(run) / FILE
    try:
        path.lstat()
    except FileNotFoundError:
        return []
    *lines, _ = read_bytes(path).split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(_checked(parse_object(line)))
        except InputError as error:
            raise InputError(f"{path}, line {number}, is not a line of metrics: {error}") from None
    return records


def _is_measured(value: Any) -> bool:
    """Whether a value is an object, null, or a number that a float can hold."""
    return value is None or isinstance(value, dict) or (isinstance(value, int | float) and abs(value) < _LARGEST)


def _checked(record: dict[str, Any]) -> dict[str, Any]:
    """Return a line if each value has the type of its field; raises InputError otherwise.

    Under other names, modules and guests measured. Null, a value that is not finite, is allowed for those and for
    `_MAY_BE_NULL`.
    """
    for name, value in record.items():
        if name not in FIELDS and not all(map(_is_measured, value if isinstance(value, list) else [value])):
            raise InputError(f"{name} is {shown(value)}, not a number, several, or objects")
    present = {name: value for name, value in record.items() if name in FIELDS}
    finite = {name: 0.0 if value is None and name in _MAY_BE_NULL else value for name, value in present.items()}
    read_dataclass(Measurement, finite)
    return record
