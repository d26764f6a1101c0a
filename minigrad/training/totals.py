"""Sums over the steps since the last line of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from minigrad.training.evaluate import bits_per_byte


@dataclass
class Totals:
    """Sums over training steps: losses in nats, the bytes of the targets, and the mean loss of each step."""

    nats: float = 0.0
    bytes: float = 0.0
    loss: float = 0.0
    steps: float = 0.0

    def add_step(self, nats: float, num_bytes: float, loss: float) -> None:
        """Add the sums of one step; `loss` is its mean loss in nats per token."""
        self.nats += nats
        self.bytes += num_bytes
        self.loss += loss
        self.steps += 1

    @property
    def mean_loss(self) -> float:
        """The mean over the steps, in nats per token."""
        return self.loss / self.steps

    @property
    def bits_per_byte(self) -> float:
        """The loss over these steps in bits per byte of the text."""
        return bits_per_byte(self.nats, self.bytes)

    def as_dict(self) -> dict[str, float]:
        """Return the sums for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, float]) -> Totals:
        """Return the sums of a checkpoint; raises KeyError, TypeError or ValueError if one is missing or damaged."""
        return cls(**{field.name: float(values[field.name]) for field in fields(cls)})
