"""The measurements of a run, one JSON object per line of metrics.jsonl.

A line is appended as soon as it is known: a run can be watched from outside, a kill loses one line at most.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from minigrad.checkpoint import PathLike, write_text
from minigrad.errors import InputError, RunError

TIMING_FIELDS = ("seconds", "tokens_per_second", "memory_bytes")
"""What differs between two runs that are the same: compare metrics without these."""


class Metrics:
    """Writes metrics.jsonl in a run folder."""

    def __init__(self, run: PathLike, resume_step: int | None = None) -> None:
        """Start an empty file for a new run, or cut that of a resumed run back to the step of its checkpoint.

        The lines after `resume_step` go: they are about to be computed again. RunError if the disk refuses.
        """
        self.path = Path(run) / "metrics.jsonl"
        kept = [] if resume_step is None else [line for line in read(run) if line["step"] <= resume_step]
        write_text(self.path, "".join(map(_as_line, kept)))

    def log(
        self,
        *,
        step: int,
        tokens: int,
        loss: float,
        bits_per_byte: float,
        learning_rate: float,
        gradient_norm: float,
        seconds: float,
        tokens_per_second: float,
        memory_bytes: int,
        val_loss: float | None = None,
        val_bits_per_byte: float | None = None,
        of_family: Mapping[str, Sequence[float]] = MappingProxyType({}),
    ) -> None:
        """Append one line; the two `val_` values only where the held-out text was evaluated.

        What a family measures besides (say Wiola's merge ratio of each layer) comes in `of_family`.
        `tokens` and `seconds` count from the start of the run, `loss` is in nats per token.
        """
        record: dict[str, Any] = {
            "step": int(step),
            "tokens": int(tokens),
            "loss": float(loss),
            "bits_per_byte": float(bits_per_byte),
            "learning_rate": float(learning_rate),
            "gradient_norm": float(gradient_norm),
            "seconds": float(seconds),
            "tokens_per_second": float(tokens_per_second),
            "memory_bytes": int(memory_bytes),
        }
        if val_loss is not None:
            record["val_loss"] = float(val_loss)
        if val_bits_per_byte is not None:
            record["val_bits_per_byte"] = float(val_bits_per_byte)
        record |= {name: [float(value) for value in values] for name, values in of_family.items()}
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(_as_line(record))
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror or error}") from error


def _as_line(record: dict[str, Any]) -> str:
    # JSON has no NaN and no infinity: a run that diverged says null.
    finite = {
        key: value if value is None or isinstance(value, list) or math.isfinite(value) else None
        for key, value in record.items()
    }
    return json.dumps(finite, allow_nan=False) + "\n"


def read(run: PathLike) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl in the run folder `run`, oldest first; none if there is no such file.

    A last line without its line break was cut by a kill and is dropped; other damage is an InputError.
    """
    path = Path(run) / "metrics.jsonl"
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
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
