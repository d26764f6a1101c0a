"""The result of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a run. Losses are in nats per token; the `val_` figures are of all validation text,
    the `test_` ones of the test text, if the run judges it.
    """

    out: Path
    steps: int
    tokens: int
    loss: float
    val_loss: float
    val_bits_per_byte: float
    xz_bits_per_byte: float | None
    seconds: float
    command: str  # repeats the run bit for bit
    test_loss: float | None = None
    test_bits_per_byte: float | None = None
